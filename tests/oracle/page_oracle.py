"""The page of `lagom lm serve` in headless Chromium: what it shows is what the API says.

* Text arrives in pieces, and is the API's text for the same seed.
* There is a cell for each token and routed block, filled where the API says that it entered.
* Errors show; the page fits a phone.

Skipped where no Chromium is installed. LAGOM_PAGE_SCREENSHOTS=FOLDER keeps pictures of it.
"""

import base64
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAGOM = os.environ.get("LAGOM", str(ROOT / "build" / "bin" / "lagom"))
SCREENSHOTS = os.environ.get("LAGOM_PAGE_SCREENSHOTS")
CHROMIUM = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)
CONFIG = """steps = 40
batch = 2
eval_windows = 1
[schedule]
learning_rate = 0.01
[data]
train = "{text}"
[model]
d_model = 32
num_layers = 6
seq_len = 512
[model.routing]
capacity = 0.5
"""


class Browser:
    """A page, spoken to over a pipe: JSON messages that end with a zero byte."""

    def __init__(self, folder):
        to_read, self.to = os.pipe()
        self.source, to_write = os.pipe()
        saved = [os.dup(fd) for fd in (to_read, to_write)]  # clear of 3 and 4, where it listens

        def connect():
            os.dup2(saved[0], 3)
            os.dup2(saved[1], 4)
        self.process = subprocess.Popen(
            [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
             "--no-first-run", f"--user-data-dir={folder}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False, preexec_fn=connect)
        for fd in (to_read, to_write, *saved):
            os.close(fd)
        self.rest, self.last_id, self.session = b"", 0, None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def close(self):
        self.process.terminate()
        self.process.wait()
        os.close(self.to)
        os.close(self.source)

    def call(self, method, **parameters):
        self.last_id += 1
        message = {"id": self.last_id, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.rest:
                data = os.read(self.source, 1 << 16)
                if not data:
                    raise RuntimeError("Chromium ended")
                self.rest += data
            answer, self.rest = self.rest.split(b"\0", 1)
            answer = json.loads(answer)
            if answer.get("id") == self.last_id:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait_for(self, expression, seconds=30):
        end = time.monotonic() + seconds
        while not self.evaluate(expression):
            if time.monotonic() > end:
                raise AssertionError(f"never came true: {expression}; the note says "
                                     f"{self.evaluate('note_text()')}")
            time.sleep(0.05)

    def click(self, selector):
        x, y = self.evaluate(f"(r => [r.x + r.width / 2, r.y + r.height / 2])"
                             f"(document.querySelector('{selector}').getBoundingClientRect())")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def type_into(self, selector, text):
        self.evaluate(f"document.querySelector('{selector}').select()")
        self.evaluate(f"document.querySelector('{selector}').focus()")
        self.call("Input.insertText", text=text)

    def screenshot(self, name):
        if SCREENSHOTS:
            picture = base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
            (pathlib.Path(SCREENSHOTS) / f"{name}.png").write_bytes(picture)


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        cls.addClassCleanup(folder.cleanup)
        path = pathlib.Path(folder.name)
        (path / "text.txt").write_text("to be or not to be\n" * 700)
        (path / "config.toml").write_text(CONFIG.format(text=path / "text.txt"))
        subprocess.run([LAGOM, "lm", "train", path / "config.toml", "--out", path / "run"], check=True,
                       capture_output=True)
        server = subprocess.Popen([LAGOM, "lm", "serve", path / "run", "--port", "0"],
                                  stderr=subprocess.PIPE, text=True)
        cls.addClassCleanup(server.wait)
        cls.addClassCleanup(server.stderr.close)
        cls.addClassCleanup(server.terminate)
        cls.url = re.search(r"http://\S+/", server.stderr.readline()).group()
        cls.browser = Browser(path / "profile")
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        self.browser.call("Page.navigate", url=self.url)
        self.browser.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")
        self.browser.evaluate("""
            window.note_text = () => document.getElementById("note").textContent;
            window.pieces = () => [...document.querySelectorAll("#text span")].map(x => x.textContent);
            window.sizes = [];
            new MutationObserver(() => sizes.push(pieces().length)).observe(
                document.getElementById("text"), { childList: true });""")

    def api(self, **fields):
        """The choices of a stream, one for each token."""
        request = urllib.request.Request(self.url + "v1/completions", method="POST",
                                         data=json.dumps({**fields, "stream": True}).encode())
        with urllib.request.urlopen(request) as answer:
            lines = [line[6:] for line in answer.read().decode().split("\n\n") if line]
        self.assertEqual(lines.pop(), "[DONE]")
        return [json.loads(line)["choices"][0] for line in lines]

    def write(self, prompt, tokens, seed):
        for name, value in (("prompt", prompt), ("max_tokens", tokens), ("seed", seed)):
            self.browser.type_into(f"#{name}", str(value))
        self.browser.click("#write")

    def test_text_and_routes_are_the_apis(self):
        prompt, tokens, seed = 'to "be"\n', 400, 7
        self.write(prompt, tokens, seed)
        choices = self.api(prompt=prompt, max_tokens=tokens, temperature=0.8, seed=seed)
        self.assertEqual(len(choices), tokens)
        self.browser.wait_for(f"pieces().length === {tokens + 1}")

        self.assertEqual(self.browser.evaluate("pieces()"), [prompt] + [c["text"] for c in choices])
        sizes = self.browser.evaluate("sizes")
        self.assertGreater(len(sizes), 2, "the text came at once")
        self.assertEqual(sizes, sorted(sizes))
        cells = self.browser.evaluate(
            "[...document.querySelectorAll('#routes i')].map(x => +x.classList.contains('entered'))")
        self.assertEqual(len(cells), tokens * 3)
        self.assertEqual(cells, [entered for c in choices for entered in c["route"]])
        self.assertIn(0, cells)
        self.assertIn(1, cells)
        self.assertRegex(self.browser.evaluate("note_text()"), rf"^{tokens} tokens, [\d.]+ a second$")

    def test_another_text_takes_the_place_of_the_last(self):
        for seed in (1, 2):
            self.write("to be", 5, seed)
            text = "to be" + "".join(c["text"] for c in self.api(prompt="to be", max_tokens=5,
                                                                 temperature=0.8, seed=seed))
            self.browser.wait_for(f"pieces().join('') === {json.dumps(text)}")
            self.browser.wait_for("document.querySelectorAll('#routes i').length === 15")

    def test_errors_show(self):
        self.write("x" * 513, 5, 0)
        self.browser.wait_for("document.getElementById('note').classList.contains('error')")
        self.assertEqual(self.browser.evaluate("note_text()"),
                         "the prompt has 513 tokens, the context 512")
        self.browser.screenshot("error")
        self.write("to be", 5, 0)
        self.browser.wait_for("pieces().length === 6")
        self.assertFalse(self.browser.evaluate("document.getElementById('note').classList.length > 0"))

    def test_fits_a_phone_and_both_schemes(self):
        for width, scheme in ((1000, "light"), (1000, "dark"), (390, "light"), (390, "dark")):
            self.browser.call("Emulation.setDeviceMetricsOverride", width=width, height=800,
                              deviceScaleFactor=1, mobile=width < 500)
            self.browser.call("Emulation.setEmulatedMedia",
                              features=[{"name": "prefers-color-scheme", "value": scheme}])
            self.write("to be", 80, 3)
            self.browser.wait_for("pieces().length === 81")
            self.assertLessEqual(self.browser.evaluate("document.documentElement.scrollWidth"), width)
            self.browser.screenshot(f"{width}-{scheme}")
        self.browser.call("Emulation.clearDeviceMetricsOverride")


if __name__ == "__main__":
    if CHROMIUM is None:
        print("page_oracle: skipped: no Chromium is installed")
        sys.exit(0)
    unittest.main()
