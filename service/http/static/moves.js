/** Moves predicted steps: by dragging their handle with mouse, pen or finger, or by the buttons next to it. */

const CARDS = '.step[data-kind="key"]';

/** Watches the cards in `list`; `move(from, to)` is called with positions from 1. */
export function addMoves(list, move) {
  list.addEventListener("click", ({ target }) => {
    const button = target.closest("[data-move]");
    if (button) move(stepOf(button), stepOf(button) + Number(button.dataset.move));
  });
  list.addEventListener("pointerdown", (event) => {
    const handle = event.target.closest(".handle");
    if (!handle || event.button !== 0) return;
    event.preventDefault();
    drag(list, handle, event, move);
  });
}

/** Follows the pointer until it is released; Escape ends it without a move. */
function drag(list, handle, { pointerId, clientY }, move) {
  const card = handle.closest(CARDS);
  const from = stepOf(card);
  const startedAt = clientY + window.scrollY;
  const end = new AbortController();
  let to = from;
  handle.setPointerCapture(pointerId);
  card.classList.add("dragged");
  const follow = ({ clientY: y }) => {
    card.style.setProperty("--moved", `${y + window.scrollY - startedAt}px`);
    to = targetOf(list, card, from, y);
    for (const other of list.querySelectorAll(CARDS)) {
      const step = stepOf(other);
      other.classList.toggle("drop-before", step === to && to < from);
      other.classList.toggle("drop-after", step === to && to > from);
    }
  };
  const finish = (moved) => {
    end.abort();
    card.classList.remove("dragged");
    card.style.removeProperty("--moved");
    for (const other of list.querySelectorAll(CARDS)) other.classList.remove("drop-before", "drop-after");
    if (moved && to !== from) move(from, to);
  };
  const { signal } = end;
  handle.addEventListener("pointermove", follow, { signal });
  handle.addEventListener("pointerup", () => finish(true), { signal });
  handle.addEventListener("pointercancel", () => finish(false), { signal });
  document.addEventListener("keydown", ({ key }) => key === "Escape" && finish(false), { signal });
}

/** Returns the position where a card dropped at `y` belongs: behind all others whose middle is above. */
function targetOf(list, card, from, y) {
  const others = [...list.querySelectorAll(CARDS)].filter((other) => other !== card);
  const above = others.filter((other) => {
    const { top, height } = other.getBoundingClientRect();
    return top + height / 2 < y;
  });
  return above.length ? stepOf(above.at(-1)) + (stepOf(above.at(-1)) < from ? 1 : 0) : Math.min(from, ...others.map(stepOf));
}

const stepOf = (element) => Number(element.closest("[data-step]").dataset.step);
