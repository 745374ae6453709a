"""Headless Chromium for tests and benches, driven by its own protocol."""

import base64
import contextlib
import itertools
import json
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import websocket

FLAGS = [
    # Tests run as root in containers, whose shared memory may be small.
    *("--no-sandbox", "--disable-dev-shm-usage", "--headless=new", "--disable-gpu"),
    *("--remote-debugging-port=0", "--remote-allow-origins=*", "--hide-scrollbars"),
    *("--no-first-run", "--disable-background-networking", "--disable-extensions"),
]


class Page:
    """One tab; keeps the page's logs and requests."""

    def __init__(self, address: str) -> None:
        self._socket = websocket.create_connection(address, timeout=120)
        self._numbers = itertools.count(1)
        self.errors: list[str] = []
        self.requests: list[str] = []
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        self._socket.send(json.dumps(message))
        while True:
            answer = json.loads(self._socket.recv())
            if answer.get("id") == number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def _note(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        match event["method"]:
            case "Runtime.exceptionThrown":
                self.errors.append(str(params["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning"):
                self.errors.append(str(params["args"]))
            case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
                self.errors.append(params["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])

    def open(self, file: Path) -> None:
        """Shows a page, drawn whole."""
        self.send("Page.navigate", url=file.resolve().as_uri())
        until = time.monotonic() + 60
        while not self.run("!!window.timeline && timeline.painted !== null"):
            if time.monotonic() > until:
                raise AssertionError(f"{file}: not drawn; {self.errors}")
            time.sleep(0.02)

    def run(self, script: str) -> Any:
        """The value of an expression; promises are waited for."""
        answer = self.send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise AssertionError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def size(self, width: int, height: int) -> None:
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def prefer(self, scheme: str) -> None:
        """`light` or `dark`, as the system would."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.send("Emulation.setEmulatedMedia", features=[feature])
        # A frame reports it to the page, which draws anew then.
        frame = "new Promise((done) => requestAnimationFrame(done))"
        self.run(f"{frame}.then(() => {frame})")

    def click(self, x: float, y: float) -> None:
        mouse = {"x": x, "y": y, "button": "left", "clickCount": 1}
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, **mouse)

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, text=key[:1])

    def screenshot(self, file: Path) -> None:
        shot = self.send("Page.captureScreenshot", format="png")
        file.write_bytes(base64.b64decode(shot["data"]))

    def pdf(self) -> bytes:
        return base64.b64decode(self.send("Page.printToPDF", landscape=True)["data"])

    def close(self) -> None:
        self._socket.close()


@contextlib.contextmanager
def browser() -> Iterator[Page]:
    """A browser with one tab and an empty profile."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            ["chromium", *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
        )
        try:
            page = Page(_address(Path(profile) / "DevToolsActivePort"))
            page.size(1360, 1500)
            yield page
            page.close()
        finally:
            process.terminate()
            process.wait(timeout=30)


def _address(port_file: Path) -> str:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if port_file.exists() and port_file.read_text().strip():
            port = port_file.read_text().split()[0]
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as answer:
                for tab in json.load(answer):
                    if tab["type"] == "page":
                        return str(tab["webSocketDebuggerUrl"])
        time.sleep(0.05)
    raise AssertionError("chromium has not started; ./dev setup installs it")
