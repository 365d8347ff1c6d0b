"""A real browser for the tests of the reports, without any network."""

import shutil

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
CHROMEDRIVER = shutil.which("chromedriver")

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def start(webdriver, profile):
    """A browser with a profile folder of its own, whose network and console are logged."""
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    return webdriver.Chrome(options, webdriver.ChromeService(CHROMEDRIVER))


def load(driver, path, *, width=1280, scheme="light"):
    """Open a report at a screen width under a colour scheme; the logs then hold this page's events only."""
    screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    emulate(driver, scheme)
    driver.get("about:blank")
    driver.get_log("performance")
    driver.get_log("browser")
    driver.get(path.as_uri())  # returns once the page has loaded, its scripts run to the end


def emulate(driver, scheme):
    """Light or dark, as if the reader's system asked for it."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
