"""What people use instead, under the same measure."""
