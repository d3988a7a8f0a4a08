"""What tests of pages do in a browser: wait, read numbers, and look for faults."""

from __future__ import annotations

from typing import Any

FAULTS = ("serious", "critical")
"""Impacts of axe that fail a test."""

LOOSE_NUMBERS = """() => {
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (!/[0-9]/.test(node.data)) continue;
    const place = node.parentElement;
    if (place.closest("script, style, noscript, .name, time, #updated, select, code")) continue;
    if (place.closest("dialog:not([open])")) continue;
    const number = place.closest("data.number");
    if (!number) found.push(`loose: ${node.data.trim()}`);
  }
  for (const number of document.querySelectorAll("data.number")) {
    const unit = number.querySelector(".unit")?.textContent.trim();
    if (!unit) found.push(`no unit: ${number.outerHTML}`);
    if (!(number.title.length > 20)) found.push(`no meaning: ${number.outerHTML}`);
    if (Number.isNaN(Number(number.value))) found.push(`no value: ${number.outerHTML}`);
  }
  for (const term of document.querySelectorAll(".term")) {
    if (!(term.dataset.tip?.length > 20)) found.push(`no tip: ${term.outerHTML}`);
  }
  return found;
}"""
"""Numbers without a unit or a meaning, and digits that are no number of the page."""


def loose_numbers(page: Any) -> list[str]:
    """Numbers of a page that lack a unit or a meaning."""
    found: list[str] = page.evaluate(LOOSE_NUMBERS)
    return found


def number(page: Any, figure: str, within: str = "main") -> float:
    """The value of the first number of a kind."""
    return float(
        page.locator(f'{within} data[data-figure="{figure}"]').first.get_attribute("value")
    )


def open_all(page: Any) -> None:
    """Open everything that is folded."""
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")


def faults(axe: Any, page: Any) -> list[str]:
    """What axe finds serious or critical."""
    found = axe.run(page).response["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html']}" for one in found if one["impact"] in FAULTS]


def too_wide(page: Any) -> list[str]:
    """What reaches beyond the right edge without being scrolled on its own."""
    found: list[str] = page.evaluate(
        """() => [...document.querySelectorAll("body *")]
          .filter((one) => one.getBoundingClientRect().right > innerWidth + 1)
          .filter((one) => !one.parentElement.closest(".scroll"))
          .map((one) => one.outerHTML.slice(0, 200))"""
    )
    return found
