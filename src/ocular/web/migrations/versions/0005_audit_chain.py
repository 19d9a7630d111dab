"""The audit log is a chain of keyed digests, says which token acted, and can only be added to."""

import secrets

import sqlalchemy as sa
from alembic import op

from ocular.web.audit_chain import entry_digest, head_seal
from ocular.web.tables import Moment

revision = "0005"
down_revision = "0004"

CONTENT = ("at", "name", "action", "subject", "address", "token")
PAGE = 1000  # rows at once

SQLITE = (
    "CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit BEGIN "
    "SELECT RAISE(ABORT, 'entries of the audit log cannot be changed'); END",
    "CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit WHEN OLD.id > (SELECT prunable FROM audit_head) BEGIN "
    "SELECT RAISE(ABORT, 'entries of the audit log cannot be deleted; use ocular audit prune'); END",
)
POSTGRESQL = (
    "CREATE FUNCTION audit_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
    "IF TG_OP = 'DELETE' THEN IF OLD.id <= (SELECT prunable FROM audit_head) THEN RETURN OLD; END IF; END IF; "
    "RAISE EXCEPTION 'entries of the audit log cannot be changed or deleted; use ocular audit prune' "
    "USING ERRCODE = 'integrity_constraint_violation'; END $$",
    "CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit FOR EACH ROW EXECUTE FUNCTION audit_refuse()",
    "CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit FOR EACH ROW EXECUTE FUNCTION audit_refuse()",
    "CREATE TRIGGER audit_no_truncate BEFORE TRUNCATE ON audit FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse()",
)


def upgrade() -> None:
    op.add_column("audit", sa.Column("token", sa.String(length=500), server_default=sa.text("''"), nullable=False))
    op.add_column("audit", sa.Column("digest", sa.String(length=64), server_default=sa.text("''"), nullable=False))
    head = op.create_table(
        "audit_head",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("seal", sa.String(length=64), nullable=False),
        sa.Column("prunable", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    key = secrets.token_hex(32)
    keys = sa.table("keys", sa.column("name", sa.String), sa.column("secret", sa.String))
    op.bulk_insert(keys, [{"name": "audit", "secret": key}])
    count, digest = _chain(key)
    seal = head_seal(key, count, digest)
    op.bulk_insert(head, [{"id": 1, "count": count, "digest": digest, "seal": seal, "prunable": 0}])
    for statement in POSTGRESQL if op.get_bind().dialect.name == "postgresql" else SQLITE:
        op.execute(statement)


def _chain(key: str) -> tuple[int, str]:
    """Give digests to the entries of older versions; return their number and the last digest."""
    connection = op.get_bind()
    audit = sa.table(
        "audit", sa.column("id", sa.Integer), sa.column("at", Moment),
        *(sa.column(name, sa.String) for name in (*CONTENT[1:], "digest")),
    )  # fmt: skip
    chained = audit.update().where(audit.c.id == sa.bindparam("of")).values(digest=sa.bindparam("new"))
    count, digest, last = 0, "", 0
    while True:
        query = sa.select(audit).where(audit.c.id > last).order_by(audit.c.id).limit(PAGE)
        rows, changes = connection.execute(query).mappings().all(), []
        for row in rows:
            digest, last = entry_digest(key, digest, dict(row)), row["id"]
            changes.append({"of": last, "new": digest})
        if changes:
            connection.execute(chained, changes)
        count += len(rows)
        if len(rows) < PAGE:
            return count, digest
