"""The lines of a page that talk to a live service: start it, ask it with curl, kill it.

- ``opportune serve ... &`` starts a service on a free port, whatever port the line says;
- ``curl ...`` sends the request and prints the answer (``-X``, ``-H``, ``--json``,
  ``--data-binary @FILE``, ``-i``; ``| python3 -m json.tool`` prints it in lines);
- ``kill %1`` and ``kill -9 %1`` end it;
- a ``python`` block finds it at the address that the page names, ``opportune plans`` and
  ``opportune explain`` by themselves.

The service that a page leaves running is ended with the page.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = "127.0.0.1:8080"
"""Where a page's service listens, as the page writes it."""

URL = "OPPORTUNE_URL"
"""Where commands look for a service."""

MARK = "serving http://"
LATER = re.compile(r"\|\s*python3 -m json\.tool.*$")


def is_live(line: str) -> bool:
    """Whether a line of a shell block starts, asks or ends a service."""
    serves = line.startswith("opportune serve") and line.rstrip().endswith("&")
    return serves or line.startswith(("curl ", "kill "))


class LiveService:
    """The service of a page."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._address = ""

    def run(self, line: str, folder: Path) -> str:
        """Run a line; what it prints.

        Raises:
            ValueError: If it cannot be run; what went wrong.
        """
        if line.startswith("opportune serve"):
            self._start(shlex.split(line.rstrip().rstrip("&"))[1:], folder)
            return ""
        if line.startswith("kill "):
            self.stop(kill="-9" in line.split())
            return ""
        return self._curl(line, folder)

    def _start(self, words: list[str], folder: Path) -> None:
        if "--port" in words:
            words[words.index("--port") + 1] = "0"
        else:
            words += ["--port", "0"]
        command = [sys.executable, "-m", "opportune", *words]
        self._process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
        said = []
        for line in self._process.stderr or ():
            said.append(line)
            if MARK in line:
                self._address = line.split(MARK)[1].split()[0]
                return
        raise ValueError("the service did not start: " + "".join(said))

    def placed(self, text: str) -> str:
        """Python of the page, with the address where the service really listens."""
        return text.replace(HERE, self._address) if self._address else text

    @contextmanager
    def in_environment(self) -> Iterator[None]:
        """While it lasts, commands that talk to a service find the page's."""
        before = os.environ.get(URL)
        if self._address:
            os.environ[URL] = f"http://{self._address}"
        try:
            yield
        finally:
            os.environ.pop(URL, None)
            if before is not None:
                os.environ[URL] = before

    def stop(self, kill: bool = False) -> None:
        """End it, well or at once."""
        process, self._process = self._process, None
        if process is not None:
            process.kill() if kill else process.terminate()
            process.communicate()

    def _curl(self, line: str, folder: Path) -> str:
        in_lines = LATER.search(line) is not None
        words = shlex.split(LATER.sub("", line))[1:]
        method, headers, body, url, head = "", {}, None, "", False
        while words:
            word = words.pop(0)
            if word == "-X":
                method = words.pop(0)
            elif word == "-H":
                name, _, value = words.pop(0).partition(":")
                headers[name.strip().lower()] = value.strip()
            elif word == "--json":
                body = words.pop(0).encode()
                headers.setdefault("content-type", "application/json")
            elif word == "--data-binary":
                body = (folder / words.pop(0).removeprefix("@")).read_bytes()
            elif word == "-i":
                head = True
            elif word.startswith("http"):
                url = word.replace(HERE, self._address)
            elif word not in ("-s", "-sS"):
                raise ValueError(f"served_pages knows no curl {word}")
        method = method or ("GET" if body is None else "POST")
        request = urllib.request.Request(url, body, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                status, text = response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read().decode()
        except OSError as error:
            raise ValueError(f"{url}: {error}") from error
        if in_lines:
            text = json.dumps(json.loads(text), indent=4)
        return (f"HTTP/1.1 {status}\n\n" if head else "") + text.replace(self._address, HERE) + "\n"
