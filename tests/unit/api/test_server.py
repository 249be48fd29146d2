"""The server refuses to listen publicly without authentication."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from icepack.api.server import is_loopback, require_authentication
from icepack.config import load_config
from icepack.errors import UsageError


class TestOpenness:
    @pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "no.such.host.invalid"])
    def test_public_address_requires_authentication(self, tmp_path: Path, host: str) -> None:
        def config(**more: Any) -> Any:
            overrides = {"server": {"host": host}, **more}
            return load_config(environ={"HOME": str(tmp_path)}, overrides=overrides, cwd=tmp_path).config

        with pytest.raises(UsageError, match="without authentication"):
            require_authentication(config())
        require_authentication(config(auth={"enabled": True}))
        require_authentication(config(auth={"oidc": {"issuer": "https://x", "audience": "icepack"}}))

    @pytest.mark.parametrize(("host", "expected"), [("127.0.0.1", True), ("::1", True), ("127.9.9.9", True)])
    def test_loopback_addresses(self, host: str, expected: bool) -> None:
        assert is_loopback(host) is expected
