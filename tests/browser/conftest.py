"""One Chromium for each test process, and the built site."""

import shutil

import pytest
from chromium import NAMES, OPTIONS, SITE, skip


@pytest.fixture(scope="session")
def browser():
    program = next((path for path in map(shutil.which, NAMES) if path), None)
    if program is None:
        skip("no Chromium is installed")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        skip("playwright is not installed: run `make browser`")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=OPTIONS)
        yield browser
        browser.close()


@pytest.fixture
def site():
    if not SITE.is_dir():
        skip("the book is not built: run `make book` first")
    return SITE
