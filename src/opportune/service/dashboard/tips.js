// One tooltip for everything: for the mouse, the keyboard (focus) and a finger; Escape closes it.

const tip = document.getElementById("tip");
let owner = null;

function place(x, y) {
  const gap = 12;
  const { width, height } = tip.getBoundingClientRect();
  const left = Math.min(Math.max(8, x + gap), innerWidth - width - 8);
  const below = y + gap + height < innerHeight;
  tip.style.left = `${Math.max(8, left)}px`;
  tip.style.top = `${below ? y + gap : Math.max(8, y - gap - height)}px`;
}

function show(element) {
  owner = element;
  tip.replaceChildren(element.dataset.tip);
  tip.showPopover();
  element.setAttribute("aria-describedby", "tip");
  const box = element.getBoundingClientRect();
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(8, Math.min(box.left, innerWidth - width - 8))}px`;
  tip.style.top = `${box.top - height - 6 > 0 ? box.top - height - 6 : box.bottom + 6}px`;
}

export function hide() {
  owner?.removeAttribute("aria-describedby");
  owner = null;
  tip.hidePopover();
}

const holder = (event) => event.target.closest?.("[data-tip]");

export function start() {
  document.addEventListener("mouseover", (event) => {
    const found = holder(event);
    if (found) show(found);
    else if (owner && owner !== document.activeElement) hide();
  });
  document.addEventListener("focusin", (event) => (holder(event) ? show(holder(event)) : hide()));
  document.addEventListener("click", (event) => (holder(event) ? show(holder(event)) : hide()));
  document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
  addEventListener("scroll", hide, { passive: true, capture: true });
}

/** Tooltips of charts: names and values as text, never as markup. */
export function chartTip(handler, event, item, value) {
  if (value === null || value === undefined || value === "") {
    if (owner === null) tip.hidePopover();
    return;
  }
  owner = null;
  const list = document.createElement("dl");
  for (const [name, text] of Object.entries(value)) {
    const term = document.createElement("dt");
    const told = document.createElement("dd");
    term.textContent = name;
    told.textContent = String(text);
    list.append(term, told);
  }
  tip.replaceChildren(list);
  tip.showPopover();
  place(event.clientX, event.clientY);
}
