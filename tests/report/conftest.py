import pytest

from .browsing import start


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """A browser for the tests of one file."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    browser = start(webdriver, tmp_path_factory.mktemp("profile"))
    yield browser
    browser.quit()
