"""Pictures of an HTML report at 1280 and 390 px, light and dark, to be looked at: REPORT.html FOLDER."""

import base64
import sys
from pathlib import Path

from docs_screenshots import browser
from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait


def main(report: Path, folder: Path) -> None:
    """Write one full-page PNG per width and colour scheme."""
    folder.mkdir(parents=True, exist_ok=True)
    with browser() as driver:
        for width in (1280, 390):
            for scheme in ("light", "dark"):
                picture(driver, report, width, scheme, folder / f"{report.stem}-{width}-{scheme}.png")


def picture(driver: webdriver.Chrome, report: Path, width: int, scheme: str, out: Path) -> None:
    """Load the report at a width under a colour scheme and write all of it as a PNG."""
    screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    driver.get(report.resolve().as_uri())
    drawn = (
        "return document.scripts.length === 0 || document.documentElement.matches('.drawn')"  # an audit has no scripts
    )
    WebDriverWait(driver, 60).until(lambda d: d.execute_script(drawn))
    shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "format": "png"})
    out.write_bytes(base64.b64decode(shot["data"]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
