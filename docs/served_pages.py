"""The lines of a page that talk to a live service: start it, ask it with curl, kill it.

- ``opportune serve ... &`` starts a service on a free port, whatever port the line says; a page may
  start several, on ports of 8080 to 8089, and ``$DATABASE`` is a PostgreSQL that is empty at first;
- ``curl ...`` sends the request and prints the answer (``-X``, ``-H``, ``--json``,
  ``--data-binary @FILE``, ``-i``; ``| python3 -m json.tool`` prints it in lines);
- ``kill %1`` and ``kill -9 %1`` end it, ``%2`` is the second one that was started;
- a ``python`` block finds it at the address that the page names, ``opportune plans`` and
  ``opportune explain`` by themselves.

What a page leaves running is ended with the page.
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

from page_database import VARIABLE, empty_database

HERE = re.compile(r"127\.0\.0\.1:(808\d)")
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
    """The services of a page."""

    def __init__(self) -> None:
        self._started: list[subprocess.Popen[str]] = []
        self._addresses: dict[str, str] = {}
        self._database = ""

    def expanded(self, word: str) -> str:
        """A word of a command with the page's database in it."""
        if VARIABLE in word:
            self._database = self._database or empty_database()
        return word.replace(VARIABLE, self._database)

    def run(self, line: str, folder: Path) -> str:
        """Run a line; what it prints.

        Raises:
            ValueError: If it cannot be run; what went wrong.
        """
        if line.startswith("opportune serve"):
            self._start(shlex.split(line.rstrip().rstrip("&"))[1:], folder)
            return ""
        if line.startswith("kill "):
            words = line.split()
            number = next((int(word[1:]) for word in words if word.startswith("%")), 1)
            self._end(self._started[number - 1], "-9" in words)
            return ""
        return self._curl(line, folder)

    def _start(self, words: list[str], folder: Path) -> None:
        words, port = [self.expanded(word) for word in words], "8080"
        if "--port" in words:
            at = words.index("--port") + 1
            port, words[at] = words[at], "0"
        else:
            words += ["--port", "0"]
        command = [sys.executable, "-m", "opportune", *words]
        process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
        self._started.append(process)
        said = []
        for line in process.stderr or ():
            said.append(line)
            if MARK in line:
                self._addresses[port] = line.split(MARK)[1].split()[0]
                return
        raise ValueError("the service did not start: " + "".join(said))

    def placed(self, text: str) -> str:
        """Text of the page, with the addresses where its services really listen."""
        return HERE.sub(lambda match: self._addresses.get(match[1], match[0]), text)

    def _told(self, text: str) -> str:
        """What a service says, with the addresses that the page has for them."""
        for port, address in self._addresses.items():
            text = text.replace(address, f"127.0.0.1:{port}")
        return text

    @contextmanager
    def in_environment(self) -> Iterator[None]:
        """While it lasts, commands that talk to a service find the page's."""
        before = os.environ.get(URL)
        if "8080" in self._addresses:
            os.environ[URL] = f"http://{self._addresses['8080']}"
        try:
            yield
        finally:
            os.environ.pop(URL, None)
            if before is not None:
                os.environ[URL] = before

    def stop(self) -> None:
        """End what runs."""
        for process in self._started:
            self._end(process, kill=False)

    def _end(self, process: subprocess.Popen[str], kill: bool) -> None:
        """End a service, well or at once."""
        if process.poll() is None:
            process.kill() if kill else process.terminate()
        if process.stderr is not None and not process.stderr.closed:
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
                url = self.placed(word)
            elif word not in ("-s", "-sS"):
                raise ValueError(f"served_pages knows no curl {word}")
        method = method or ("GET" if body is None else "POST")
        request = urllib.request.Request(url, body, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                status, text = response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read().decode()
        except OSError as error:
            raise ValueError(f"{url}: {error}") from error
        if in_lines:
            text = json.dumps(json.loads(text), indent=4)
        return (f"HTTP/1.1 {status}\n\n" if head else "") + self._told(text) + "\n"
