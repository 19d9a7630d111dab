"""Asks for memory before it is needed: a row of the other side is anywhere, and the processor cannot guess where."""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LINE = 16  # float32 or int32 in a cache line


@intrinsic
def prefetch(_context, array, _index):
    """The cache line of array[index] of a flat array, any index: nothing is read."""

    def generate(context, builder, signature, arguments):
        start = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        address = builder.bitcast(builder.gep(start, [arguments[1]]), byte)
        read, keep, data = (ir.Constant(number, value) for value in (0, 3, 1))
        builder.call(function, [address, read, keep, data])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate
