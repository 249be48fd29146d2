from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from icepack.config import LoadedConfig, load_config
from icepack.errors import ConfigError

Load = Callable[..., LoadedConfig]
LoadError = Callable[..., str]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def load(home: Path, cwd: Path) -> Load:
    """Loads a text as ./icepack.yaml; None means no file."""

    def load_text(
        text: str | None = None, environ: Mapping[str, str] = {}, overrides: Mapping[str, Any] = {}
    ) -> LoadedConfig:
        if text is not None:
            (cwd / "icepack.yaml").write_text(text, encoding="utf-8")
        return load_config(environ={"HOME": str(home), **environ}, overrides=overrides, cwd=cwd)

    return load_text


@pytest.fixture
def load_error(load: Load, cwd: Path) -> LoadError:
    """Returns the message of the error that loading raises, without the folder."""

    def message(*args: Any, **kwargs: Any) -> str:
        with pytest.raises(ConfigError) as caught:
            load(*args, **kwargs)
        return str(caught.value).replace(f"{cwd}/", "")

    return message
