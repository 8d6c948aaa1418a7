# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium that shows a page, spoken to over a pipe: JSON messages that end with a zero byte."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE = 120  # s: its start beside compilers


class Browser:
    """Ends with `with`."""

    def __init__(self):
        self.profile = tempfile.mkdtemp(prefix="dos-chromium-")
        read_end, self.to_browser = os.pipe()
        self.from_browser, write_end = os.pipe()
        # Away from 3 and 4, which the browser reads from and writes to.
        commands, answers = (fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (read_end, write_end))
        self.errors = open(os.path.join(self.profile, "errors"), "w+", encoding="utf-8")
        home = {name: self.profile for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "TMPDIR")}
        script = f"exec {CHROMIUM} \"$@\" 3<&{commands} 4>&{answers} {commands}<&- {answers}>&-"
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                   "--remote-debugging-pipe", f"--user-data-dir={self.profile}"]
        self.process = subprocess.Popen(["bash", "-c", script, "bash", *options], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=self.errors, pass_fds=(commands, answers),
                                        env=os.environ | home, start_new_session=True)
        for descriptor in (commands, answers, read_end, write_end):
            os.close(descriptor)
        self.number, self.received, self.session = 0, b"", None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        for descriptor in (self.to_browser, self.from_browser):
            os.close(descriptor)
        self.errors.close()
        shutil.rmtree(self.profile, ignore_errors=True)

    def call(self, method, **parameters):
        """The answer to a command; what the browser tells unasked is passed over."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to_browser, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + PATIENCE
        while True:
            while b"\0" in self.received:
                text, _, self.received = self.received.partition(b"\0")
                answer = json.loads(text)
                if answer.get("id") == self.number:
                    assert "error" not in answer, answer
                    return answer["result"]
            ready = select.select([self.from_browser], [], [], max(0.0, end - time.monotonic()))[0]
            part = os.read(self.from_browser, 1 << 20) if ready else b""
            assert part, f"no answer to {method}: {self.said()}"
            self.received += part

    def said(self):
        self.errors.seek(0)
        return self.errors.read()[-2000:]

    def open(self, page):
        """Shows a file in a tab of its own."""
        self.session = None
        target = self.call("Target.createTarget", url=page.as_uri())["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def resize(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def value(self, expression):
        """Of JavaScript, in the page; None while it has none."""
        result = self.call("Runtime.evaluate", expression=f"JSON.stringify({expression})", returnByValue=True)["result"]
        return json.loads(result["value"]) if "value" in result else None

    def picture(self):
        """The whole page as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"])
