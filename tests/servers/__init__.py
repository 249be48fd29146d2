"""Real servers for tests, one module per server; each is started once per test session on a free port of 127.0.0.1."""
