# SPDX-License-Identifier: Apache-2.0
"""Runs the snippets of docs/fencing.md against real stores, as the page tells to use them. TAP."""

import ctypes
import hashlib
import http.server
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/lib"))
from nothing_left import die_with_parent, scratch_place  # noqa: E402

PAGE = (ROOT / "docs/fencing.md").read_text(encoding="utf-8")
DEADLINE_S = 60
ITEMS = 10


class Skip(Exception):
    """Why a test cannot run here."""


def snippet(language, name):
    found = re.findall(rf"^```{language} {name}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(found) == 1, f"the page has {len(found)} snippets called {language} {name}"
    return found[0]


class Sql:
    """SQLite; the statements are those of every SQL database."""

    def __init__(self, directory):
        self.database = sqlite3.connect(directory / "stock.db", isolation_level=None)
        self.database.execute(snippet("sql", "table"))
        self.database.execute("INSERT INTO stock (id, items) VALUES (1, ?)", (ITEMS,))

    def change(self, name, **values):
        return self.database.execute(snippet("sql", name), {"id": 1, **values}).rowcount == 1

    def claim(self, token):
        return self.change("claim", token=token)

    def read(self):
        return self.database.execute(snippet("sql", "read"), {"id": 1}).fetchone()[0]

    def write(self, token, items):
        return self.change("write", token=token, items=items)

    def close(self):
        self.database.close()


class Redis:
    """A server of the test's own, on a socket in its directory."""

    def __init__(self, directory):
        if not shutil.which("redis-server") or not shutil.which("redis-cli"):
            raise Skip("redis-server or redis-cli is not installed")
        self.socket = str(directory / "redis.sock")
        self.server = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", self.socket, "--save", "",
             "--dir", str(directory)], stdout=subprocess.PIPE, text=True,
            preexec_fn=die_with_parent)
        for line in self.server.stdout:
            if "ready to accept connections" in line.lower():
                break
        self.ask("hset", "stock", "items", str(ITEMS))

    def ask(self, *words):
        return subprocess.run(["redis-cli", "-s", self.socket, *words], check=True, text=True,
                              capture_output=True, timeout=DEADLINE_S).stdout.strip()

    def run(self, name, *arguments):
        reply = self.ask("eval", snippet("lua", name), "1", "stock", *arguments)
        assert reply in ("0", "1"), reply
        return reply == "1"

    def claim(self, token):
        return self.run("claim", str(token))

    def read(self):
        return int(self.ask("hget", "stock", "items"))

    def write(self, token, items):
        return self.run("write", str(token), str(items))

    def close(self):
        self.server.kill()
        self.server.wait()
        self.server.stdout.close()


class File:
    """The page's C, compiled as a library."""

    def __init__(self, directory):
        compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if not compiler:
            raise Skip("there is no C compiler")
        source, library = directory / "fence.c", directory / "fence.so"
        source.write_text(snippet("c", "file"), encoding="utf-8")
        subprocess.run([compiler, "-std=c99", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror",
                        "-shared", "-fPIC", "-o", str(library), str(source)], check=True,
                       timeout=DEADLINE_S)
        self.code = ctypes.CDLL(str(library))
        for function in (self.code.claim_file, self.code.replace_file):
            function.restype = ctypes.c_bool
        self.directory = directory
        self.path = directory / "stock"
        self.fence = str(directory / "stock.fence").encode()
        self.path.write_text(str(ITEMS), encoding="utf-8")

    def claim(self, token):
        return self.code.claim_file(self.fence, ctypes.c_uint64(token))

    def read(self):
        return int(self.path.read_text(encoding="utf-8"))

    def write(self, token, items):
        new = self.directory / f"stock.{token}"
        new.write_text(str(items), encoding="utf-8")
        return self.code.replace_file(self.fence, ctypes.c_uint64(token), str(new).encode(),
                                      str(self.path).encode())

    def close(self):
        pass


class ObjectHandler(http.server.BaseHTTPRequestHandler):
    """One object; its ETag is a digest of its body, as on S3."""

    def reply(self, status, body=b""):
        self.send_response(status)
        self.send_header("ETag", f'"{hashlib.md5(self.server.body).hexdigest()}"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.reply(200, self.server.body)

    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers["If-Match"] != f'"{hashlib.md5(self.server.body).hexdigest()}"':
            self.reply(412)
            return
        self.server.body = body
        self.reply(200)

    def log_message(self, *_):
        pass


class Http:
    """The page's Python against a server that knows If-Match."""

    def __init__(self, _):
        self.code = {}
        exec(snippet("python", "http"), self.code)  # pylint: disable=exec-used
        self.server = http.server.HTTPServer(("127.0.0.1", 0), ObjectHandler)
        self.server.body = b'{"fence": "0", "items": %d}' % ITEMS
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/stock"
        self.claimed = {}

    def claim(self, token):
        claimed = self.code["claim"](self.url, token)
        if claimed is not None:
            self.claimed[token] = claimed
        return claimed is not None

    def read(self):
        return self.claimed[max(self.claimed)][0]["items"]

    def write(self, token, items):
        data, etag = self.claimed[token]
        etag = self.code["put_if_match"](self.url, {**data, "items": items}, etag)
        if etag is not None:
            self.claimed[token] = ({**data, "items": items}, etag)
        return etag is not None

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def late_write_before_the_next_write_is_refused(resource):
    assert resource.claim(1) and resource.read() == ITEMS
    assert resource.claim(2) and resource.read() == ITEMS
    assert not resource.write(1, ITEMS - 1)
    assert resource.write(2, ITEMS - 1)
    assert resource.claim(3) and resource.read() == ITEMS - 1


def late_write_after_the_next_write_is_refused(resource):
    assert resource.claim(1) and resource.claim(2)
    assert resource.write(2, ITEMS - 1)
    assert not resource.write(1, ITEMS - 2)
    assert resource.claim(3) and resource.read() == ITEMS - 1


def smaller_token_cannot_claim(resource):
    assert resource.claim(10)
    assert not resource.claim(9)
    assert resource.claim(10) and resource.write(10, 7)
    assert resource.write(10, 6), "the second write of one owner"
    assert resource.claim(10) and resource.read() == 6, "a repeated claim"


def tokens_beyond_doubles_are_compared_exactly(resource):
    small, large = 2**62, 2**62 + 1
    assert resource.claim(large)
    assert not resource.claim(small)
    assert resource.write(large, 9)
    assert resource.claim(999999999999999999) is False, "fewer digits are a smaller number"


def comparing_at_the_write_alone_loses_an_update():
    """What the page calls wrong is wrong: else the tests above would show nothing."""
    with tempfile.TemporaryDirectory(dir=scratch_place()) as room:
        resource = Sql(pathlib.Path(room))
        assert resource.read() == ITEMS
        assert resource.change("wrong", token=1, items=ITEMS - 1)
        assert resource.change("wrong", token=2, items=ITEMS - 1)
        assert resource.read() == ITEMS - 1
        resource.close()


def in_room(kind, story):
    with tempfile.TemporaryDirectory(dir=scratch_place()) as room:
        resource = kind(pathlib.Path(room))
        try:
            story(resource)
        finally:
            resource.close()


STORIES = [late_write_before_the_next_write_is_refused, late_write_after_the_next_write_is_refused,
           smaller_token_cannot_claim, tokens_beyond_doubles_are_compared_exactly]
TESTS = [(f"{kind.__name__.lower()}_{story.__name__}",
          lambda kind=kind, story=story: in_room(kind, story))
         for kind in (Sql, Redis, File, Http) for story in STORIES]
TESTS.append((comparing_at_the_write_alone_loses_an_update.__name__,
              comparing_at_the_write_alone_loses_an_update))


def main():
    failed = 0
    print(f"1..{len(TESTS)}", flush=True)
    for number, (name, test) in enumerate(TESTS, 1):
        try:
            test()
            print(f"ok {number} - {name}", flush=True)
        except Skip as reason:
            print(f"ok {number} - {name} # SKIP {reason}", flush=True)
        except (AssertionError, OSError, subprocess.SubprocessError, sqlite3.Error) as error:
            failed += 1
            frame = error.__traceback__
            while frame.tb_next:
                frame = frame.tb_next
            print(f"# line {frame.tb_lineno}: {error!r}\nnot ok {number} - {name}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
