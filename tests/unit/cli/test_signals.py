"""Signal handling of commands."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from icepack.cli.signals import cancel_on_signal, stop_on_signal


def test_the_first_signal_stops_and_the_second_exits() -> None:
    stopped = threading.Event()
    with stop_on_signal(stopped.set) as received:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stopped.wait(2)
        assert received == [signal.SIGTERM]
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            threading.Event().wait(2)


def test_a_signal_cancels_with_a_message(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with cancel_on_signal() as cancel:
        assert not cancel.is_set()
        os.kill(os.getpid(), signal.SIGTERM)
        assert cancel.wait(2)
        for thread in [thread for thread in threading.enumerate() if thread.name == "icepack-stop"]:
            thread.join()
    assert "Stopping" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) == before
