"""The derivative table: one record an op, a file a family."""
