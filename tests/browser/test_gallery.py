"""The gallery of components, by picture and by axe."""

from playwright.async_api import Locator, Page

from browser.axe import accessible
from browser.pictures import take_picture
from browser.served_site import Site, serve_site

MIN_COMPONENTS = 14
#: Script that removes the class of a component and returns the number of its elements.
STRIP = """section => {
  const name = section.dataset.component, parts = section.querySelectorAll("." + CSS.escape(name));
  for (const part of parts) part.classList.remove(name);
  return parts.length;
}"""
#: Script that returns what a component does not show: empty elements and cut or wide ones.
FAULTS = """section => [...section.querySelectorAll("*")].filter(part => {
  if (part.closest("svg,.cut *,.hidden,.visually-hidden") || !part.checkVisibility()) return false;
  const box = part.getBoundingClientRect();
  return part.textContent.trim() && (!box.width || box.right > innerWidth);
}).map(part => part.outerHTML.slice(0, 120))"""


async def components(page: Page) -> list[Locator]:
    found = await page.locator("[data-component]").all()
    assert len(found) >= MIN_COMPONENTS
    return found


async def test_class_of_every_component_changes_the_drawing(page: Page, site: Site) -> None:
    async with serve_site(site.world, is_development=True) as served:
        await page.goto(f"{served.address}/gallery")
        await page.emulate_media(reduced_motion="reduce")
        for component in await components(page):
            name = await component.get_attribute("data-component")
            drawn = await component.screenshot()
            assert await component.evaluate(STRIP), name
            assert await component.screenshot() != drawn, f"the class {name} has no effect"


async def test_gallery_is_accessible_and_fits_every_window(page: Page, site: Site) -> None:
    async with serve_site(site.world, is_development=True) as served:
        await page.goto(f"{served.address}/gallery")
        await accessible(page)
        for theme in ("dark", "light"):
            await take_picture(page, f"gallery-{theme}", theme)
        for width in (1440, 390):
            await page.set_viewport_size({"width": width, "height": 900})
            for component in await components(page):
                assert await component.evaluate(FAULTS) == []


async def test_gallery_is_served_only_in_development(page: Page, site: Site) -> None:
    reply = await page.goto(f"{site.address}/gallery")
    assert reply
    assert reply.status == 404
    site.faults.clear()
