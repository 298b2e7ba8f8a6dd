"""Hostile texts in every field of the sample data: no page executes their scripts."""

from urllib.parse import quote

from playwright.async_api import BrowserContext, Page, Request

from browser.hostile import SHORT, hostile_pages
from browser.served_site import Site
from browser.xss_payloads import PAYLOADS

#: Script that finds texts which the browser has taken for markup or script.
STRANGE = """() => {
  const found = [];
  if ('__pwned' in window) found.push('executed');
  for (const one of document.querySelectorAll('*')) {
    for (const {name, value} of one.attributes) {
      if (/^on|^(data-)?hx-on/i.test(name)) found.push(`${one.tagName} ${name}`);
      if (/^(href|src|action|formaction|xlink:href|data|srcdoc)$/.test(name)
          && !/^(https?:|mailto:|data:image[/]svg[+]xml,%3Csvg|[/#?]|$)/.test(value))
        found.push(`${one.tagName} ${name}=${value}`);
    }
    if (/^(iframe|object|embed|base|style|video|audio|math)$/i.test(one.tagName)
        && !(one.tagName === 'STYLE' && one.parentNode === document.head))
      found.push(one.tagName);
    if (one.tagName === 'SCRIPT' && !one.src.startsWith(location.origin + '/static/'))
      found.push('script');
    if (one.tagName === 'DETAILS') one.open = true;
  }
  return found;
}"""
#: URLs of pages that show a part of their URL; the test puts a hostile text in place of `{}`.
REFLECTED = (
    "/plans?q={}",
    "/runs?q={}&dag={}",
    "/audit?actor={}&event={}&channel={}",
)


async def test_pages_do_not_execute_scripts_in_hostile_texts(page: Page, site: Site) -> None:
    assert len(PAYLOADS) >= 40
    urls: list[str] = []

    def note(request: Request) -> None:
        if "__pwned" in request.url.partition("?")[0] or not request.url.startswith(site.address):
            urls.append(request.url)

    page.on("request", note)
    pages = await hostile_pages(site.world.agent)
    words = [quote(word, safe="") for word in SHORT[::9]]
    pages += [path.replace("{}", word) for path in REFLECTED for word in words]
    strange: dict[str, list[str]] = {}
    for path in pages:
        shown = await page.goto(site.address + path)
        assert shown is not None
        assert shown.status == 200, f"{path}: {shown.status}"
        if violations := await page.evaluate(STRANGE):
            strange[path] = violations
    assert (strange, urls, site.faults) == ({}, [], [])


async def test_error_pages_do_not_execute_hostile_text_of_the_url(page: Page, site: Site) -> None:
    for word in SHORT[::7]:
        for path in ("/plans/{}", "/runs/{}", "/dags/{}", "/audit?since={}", "/outputs?behind={}"):
            shown = await page.goto(site.address + path.replace("{}", quote(word, safe="")))
            assert shown is not None
            assert shown.status in {400, 404}
            assert await page.evaluate(STRANGE) == []
    # The browser logs responses with an error status, which are expected here.
    site.faults[:] = [fault for fault in site.faults if "Failed to load resource" not in fault]


async def test_injection_check_reports_unescaped_scripts(context: BrowserContext) -> None:
    tab = await context.new_page()
    for payload in PAYLOADS[:2] + PAYLOADS[12:14]:
        await tab.set_content(f"<main>{payload}</main>")
        assert await tab.evaluate(STRANGE) != []
