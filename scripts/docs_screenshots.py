"""Pictures of the built site at 1280 and 390 px, light and dark, to be looked at: SITE FOLDER [PAGE ...].

A long page becomes several pictures, PAGE-WIDTH-SCHEME-1.png and on.
Says which pages are wider than the screen, and which ask for anything that is not a file of the site: there should be
none of either, and the exit status is 1 if there is one.
"""

import base64
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
TALLEST = 6000  # px of a page in one picture; longer ones cannot be looked at


def main(site: Path, folder: Path, pages: list[str]) -> int:
    """Write a PNG of each page, width and colour scheme. Pages are paths under the site; without any, all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = pages or sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))
    faults = []
    with browser() as driver:
        for page in pages:
            for width, scheme in ((1280, "light"), (390, "light"), (1280, "dark")):
                faults += faults_of(driver, site / page, width, scheme)
                name = f"{page.removesuffix('.html').replace('/', '-')}-{width}-{scheme}"
                for number, png in enumerate(pictures(driver, width), 1):
                    (folder / f"{name}-{number}.png").write_bytes(png)
    sys.stdout.writelines(f"{fault}\n" for fault in faults)
    return min(len(faults), 1)


@contextmanager
def browser() -> Iterator[webdriver.Chrome]:
    """A headless Chromium that notes what it is asked to load."""
    with tempfile.TemporaryDirectory() as profile:
        options = webdriver.ChromeOptions()
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"performance": "ALL"})
        # both named, so that selenium does not look for them on the network
        options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
        driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
        try:
            driver.get("about:blank")
            requested(driver)  # those of the browser's own first page
            yield driver
        finally:
            driver.quit()


def faults_of(driver: webdriver.Chrome, page: Path, width: int, scheme: str) -> list[str]:
    """Load a page at a width under a colour scheme, and say what is wrong with it."""
    screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    driver.get(page.resolve().as_uri())
    needed = driver.execute_script("return document.documentElement.scrollWidth")
    wide = [f"{page}: {needed} px wide on a screen of {width}"] if needed > width else []
    return wide + [f"{page}: asks for {url}" for url in requested(driver) if not url.startswith(("file:", "data:"))]


def pictures(driver: webdriver.Chrome, width: int) -> Iterator[bytes]:
    """The page that is loaded, from top to end, as PNGs."""
    tall = driver.execute_script("return document.documentElement.scrollHeight")
    for top in range(0, tall, TALLEST):
        clip = {"x": 0, "y": top, "width": width, "height": min(tall - top, TALLEST), "scale": 1}
        settings = {"captureBeyondViewport": True, "format": "png", "clip": clip}
        yield base64.b64decode(driver.execute_cdp_cmd("Page.captureScreenshot", settings)["data"])


def requested(driver: webdriver.Chrome) -> list[str]:
    """Addresses that were asked for since the last look."""
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]))
