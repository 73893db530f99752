"""The real browser, as tests speak to it: one process of ``driver.mjs``, one command at a time."""

import json
import subprocess
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


class Browser:
    """Elements are named as a person would name them: by role and label. A ``css`` selector names what has neither.

    Raises ``AssertionError`` when something is not there within a quarter of a minute."""

    def __init__(self, node: str, chromium: str, profile: Path) -> None:
        self._process = subprocess.Popen(
            [node, str(HERE / "driver.mjs"), chromium, str(profile)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def _do(self, what: str, **arguments: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": what, **arguments}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the browser has ended at {what} {arguments}"
        answer = json.loads(line)
        if "error" in answer:
            raise AssertionError(f"{what} {arguments}: {answer['error']}")
        return answer["value"]

    def close(self) -> None:
        """Ends the browser, with its driver."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    # the page

    def new_page(self, *, width: int = 1200, dark: bool = False) -> None:
        """A fresh tab in place of the last one."""
        self._do("page", width=width, height=820 if width > 600 else 740, dark=dark)

    def open(self, url: str) -> None:
        self._do("open", url=url)

    def serve(self, url: str, folder: Path) -> None:
        """From now on this browser gets the files of ``folder`` below ``url``, whatever the server there has."""
        self._do("serve", url=url, folder=str(folder))

    def reload(self) -> None:
        self._do("reload")

    def screenshot(self, path: Path) -> None:
        self._do("screenshot", path=str(path))

    def complaints(self) -> list[str]:
        """What the console holds against the page since it was opened: exceptions, policy violations, other origins."""
        # a refusal and a dead server are told there too, and both are what some tests are about
        return [said for said in self._do("complaints") if "Failed to load resource" not in said]

    # what a person does

    def click(self, name: str, role: str = "button") -> None:
        self._do("click", role=role, name=name)

    def fill(self, name: str, text: str, role: str = "textbox") -> None:
        self._do("fill", role=role, name=name, text=text)

    def fill_css(self, css: str, text: str) -> None:
        self._do("fill", css=css, text=text)

    def press(self, key: str) -> None:
        self._do("press", key=key)

    def say(self, text: str) -> None:
        """Sends a message as one does: types it and presses Enter."""
        self.fill("Message", text)
        self.press("Enter")

    # what a person sees

    def sees(
        self, text: str, *, count: int | None = None, within: str = "main", timeout_s: float = 15
    ) -> None:
        """Waits until the text is there (exactly ``count`` times)."""
        self._do("sees", text=text, count=count, within=within, timeout=timeout_s * 1000)

    def waits_for(self, css: str, timeout_s: float = 15) -> None:
        self._do("waits", css=css, timeout=timeout_s * 1000)

    def waits_for_status(self, word: str, timeout_s: float = 15) -> None:
        """Waits for the status in the line of facts: ``streaming``, ``waiting for you``, ``completed`` …"""
        self.waits_for(f".facts .state.{word.replace(' ', '-')}", timeout_s)

    def text(self, css: str) -> str:
        return self._do("text", css=css)

    def evaluate(self, script: str) -> Any:
        return self._do("evaluate", script=script)
