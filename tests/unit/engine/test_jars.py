from __future__ import annotations

import hashlib
import multiprocessing
import os
from pathlib import Path

import pytest

from icepack.engine.java import jars as jars_module
from icepack.engine.java.jars import Jar, JarStore, locked_jars
from icepack.engine.java.runtime import Java, find_java
from icepack.errors import EnvironmentFault

NO_JAVA = Java(Path("/nowhere"), 17, "test")


def jar(artifact: str, purpose: str = "base", version: str = "1.0") -> Jar:
    content = content_of(artifact)
    return Jar(
        group="org.example",
        artifact=artifact,
        version=version,
        purpose=purpose,
        size_bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
    )


def content_of(artifact: str) -> bytes:
    return f"the bytes of {artifact}".encode()


JARS = (jar("small"), jar("driver", "postgres"))


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A Maven repository in a folder, for real downloads without a network."""
    for each in JARS:
        folder = tmp_path / "repository" / "org" / "example" / each.artifact / each.version
        folder.mkdir(parents=True)
        (folder / each.file_name).write_bytes(content_of(each.artifact))
    return tmp_path / "repository"


@pytest.fixture
def settings(tmp_path: Path, repository: Path) -> Path:
    return ivy_settings(tmp_path, repository.as_uri())


def ivy_settings(folder: Path, root: str) -> Path:
    path = folder / "ivysettings.xml"
    resolver = f'<ibiblio name="mirror" m2compatible="true" root="{root}"/>'
    path.write_text(f'<ivysettings><settings defaultResolver="mirror"/><resolvers>{resolver}</resolvers></ivysettings>')
    return path


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    return tmp_path / "kept (a) [b]"


@pytest.fixture
def store(kept: Path, settings: Path) -> JarStore:
    return JarStore(folder=kept, java=find_java(None, os.environ), environ={}, ivy_settings=settings, jars=JARS)


def keep(folder: Path, name: str = "small-1.0.jar", content: bytes = content_of("small")) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)
    return folder / name


def without_java(folder: Path, own_folder: Path | None = None) -> JarStore:
    return JarStore(folder=folder, java=NO_JAVA, environ={}, own_folder=own_folder, jars=JARS)


def test_the_lock_file_lists_what_spark_needs() -> None:
    purposes = {each.artifact: each.purpose for each in locked_jars()}
    assert purposes == {
        "iceberg-spark-runtime-4.1_2.13": "base",
        "sqlite-jdbc": "base",
        "postgresql": "postgres",
        "iceberg-aws-bundle": "aws",
    }
    assert all(len(each.sha256) == 64 and each.size_bytes > 0 for each in locked_jars())


def test_jars_are_downloaded_once_and_then_used_without_java_or_network(store: JarStore, kept: Path) -> None:
    fetched = store.ensure({"base", "postgres"})
    assert [path.read_bytes() for path in fetched] == [content_of("small"), content_of("driver")]
    assert without_java(kept).ensure({"base", "postgres"}) == fetched
    assert sorted(path.name for path in kept.iterdir()) == [".lock", "checked.json", "driver-1.0.jar", "small-1.0.jar"]


def test_only_requested_jars_are_downloaded(store: JarStore, kept: Path) -> None:
    keep(kept / ".fetch-killed", "half.jar")
    assert store.ensure({"base"}) == [kept / "small-1.0.jar"]
    assert not (kept / "driver-1.0.jar").exists()
    assert not (kept / ".fetch-killed").exists()


def test_a_damaged_jar_is_downloaded_again(store: JarStore, kept: Path) -> None:
    damaged = keep(kept, content=b"x" * len(content_of("small")))
    assert store.ensure({"base"}) == [damaged]
    assert damaged.read_bytes() == content_of("small")


def test_a_jar_is_hashed_once(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = keep(kept)
    assert without_java(kept).ensure({"base"}) == [path]
    monkeypatch.setattr(jars_module, "_sha256", lambda _: pytest.fail("hashed again"))
    assert without_java(kept).ensure({"base"}) == [path]


def test_a_changed_jar_is_hashed_again(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = keep(kept)
    without_java(kept).ensure({"base"})
    os.utime(path, ns=(1, 1))
    monkeypatch.setattr(jars_module, "_sha256", lambda _: "another")
    assert without_java(kept)._missing(JARS[:1]) == [JARS[0]]


def test_a_jar_is_hashed_again_if_the_record_of_checked_jars_is_damaged(kept: Path) -> None:
    keep(kept)
    keep(kept, "checked.json", b"{not json")
    assert without_java(kept).ensure({"base"})


def test_a_download_with_another_checksum_is_not_kept(store: JarStore, kept: Path, repository: Path) -> None:
    keep(repository / "org/example/small/1.0", content=b"y" * len(content_of("small")))
    with pytest.raises(EnvironmentFault, match="the checksum differs") as fault:
        store.ensure({"base"})
    assert "spark.ivy_settings" in fault.value.remedy
    assert [path.name for path in kept.iterdir()] == [".lock"]


def test_the_error_says_if_the_repository_does_not_have_the_jar(store: JarStore, repository: Path) -> None:
    (repository / "org/example/small/1.0/small-1.0.jar").unlink()
    with pytest.raises(EnvironmentFault, match=r"Could not download small-1\.0\.jar: the repository does not") as fault:
        store.ensure({"base"})
    assert all(word in fault.value.remedy for word in ("icepack jars fetch", "spark.jars", "spark.ivy_settings"))


def test_the_error_says_if_the_repository_does_not_answer(store: JarStore, tmp_path: Path) -> None:
    ivy_settings(tmp_path, "http://127.0.0.1:9/")
    with pytest.raises(EnvironmentFault, match="did not answer"):
        store.ensure({"base"})


def test_a_download_times_out(store: JarStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars_module, "FETCH_TIMEOUT_SECONDS", 0.001)
    with pytest.raises(EnvironmentFault, match="took longer"):
        store.ensure({"base"})


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("Host repository.example not found. url=…\nmodule not found: a#b;1", "the network is not available"),
        ("Server access error (PKIX path building failed)\nmodule not found: a#b;1", "certificate is not trusted"),
        ("java.io.IOException: No space left on device", "the disk is full"),
        ("something new", "Ivy failed"),
    ],
)
def test_the_reason_is_derived_from_the_output_of_ivy(output: str, reason: str) -> None:
    assert reason in jars_module._reason(output)


def _ensure(folder: Path, settings: Path, announced: Path) -> None:
    def announce(sentence: str) -> None:
        with announced.open("a") as file:
            file.write(f"{sentence}\n")

    java = find_java(None, os.environ)
    JarStore(folder=folder, java=java, environ={}, ivy_settings=settings, announce=announce, jars=JARS).ensure({"base"})


def test_two_processes_download_only_once(kept: Path, settings: Path, tmp_path: Path) -> None:
    processes = multiprocessing.get_context("spawn")
    announced = tmp_path / "announced"
    both = [processes.Process(target=_ensure, args=(kept, settings, announced)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join(30)
    assert [process.exitcode for process in both] == [0, 0]
    assert announced.read_text() == "Downloading small-1.0.jar (18 B), only once …\n"


def test_the_error_names_a_folder_that_is_not_writable(store: JarStore, kept: Path) -> None:
    kept.write_text("a file where the folder should be")
    with pytest.raises(EnvironmentFault, match=r"Cannot write the jars to '.*kept \(a\) \[b\]'") as fault:
        store.ensure({"base"})
    assert "spark.jars" in fault.value.remedy


def test_a_folder_that_is_not_writable_can_be_used_if_it_has_the_jars(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = keep(kept)
    monkeypatch.setattr(jars_module, "_write_json", refuse)
    assert without_java(kept).ensure({"base"}) == [path]


def test_a_configured_folder_is_used_instead_of_downloading(kept: Path, tmp_path: Path) -> None:
    own = keep(tmp_path / "own")
    assert without_java(kept, tmp_path / "own").ensure({"base"}) == [own]


def test_the_locked_name_with_another_checksum_is_rejected_in_a_configured_folder(kept: Path, tmp_path: Path) -> None:
    keep(tmp_path / "own", content=b"other bytes")
    with pytest.raises(EnvironmentFault, match="the checksum differs"):
        without_java(kept, tmp_path / "own").ensure({"base"})


def test_another_version_in_a_configured_folder_is_accepted(kept: Path, tmp_path: Path) -> None:
    own = keep(tmp_path / "own", "small-1.0-acme2.jar", b"patched")
    keep(tmp_path / "own", "small-1.0-acme2-sources.jar")
    keep(tmp_path / "own", "small-talk-1.0.jar")
    assert without_java(kept, tmp_path / "own").ensure({"base"}) == [own]


@pytest.mark.parametrize(
    ("names", "message"), [([], r"no small-1\.0\.jar"), (["1.1", "1.2"], "several versions of small")]
)
def test_a_configured_folder_must_have_exactly_one_version(
    kept: Path, tmp_path: Path, names: list[str], message: str
) -> None:
    (tmp_path / "own").mkdir()
    for version in names:
        keep(tmp_path / "own", f"small-{version}.jar")
    with pytest.raises(EnvironmentFault, match=message):
        without_java(kept, tmp_path / "own").ensure({"base"})


def test_the_proxy_of_the_environment_is_passed_to_java() -> None:
    environ = {
        "https_proxy": "http://proxy.example:3128",
        "HTTP_PROXY": "http://other.example",
        "NO_PROXY": ".a.example, b",
    }
    assert jars_module._proxy_options(environ) == [
        "-Dhttp.proxyHost=other.example",
        "-Dhttp.proxyPort=80",
        "-Dhttps.proxyHost=proxy.example",
        "-Dhttps.proxyPort=3128",
        "-Dhttp.nonProxyHosts=localhost|127.*|*.a.example|b",
    ]
    assert jars_module._proxy_options({"NO_PROXY": "b"}) == []


def test_the_error_says_if_pyspark_has_no_ivy(store: JarStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(EnvironmentFault, match="does not contain Apache Ivy"):
        store.ensure({"base"})
