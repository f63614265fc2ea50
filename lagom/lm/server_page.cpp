#include "lagom/lm/server.h"

namespace lagom::lm {

const char* const kServerPage = R"html(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>lagom lm</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root { color-scheme: light dark; --entered: #3b7ddd; --line: #8886; --error: #c62828; }
@media (prefers-color-scheme: dark) { :root { --entered: #6ea8fe; --error: #ff8a80; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0 0 1rem; }
textarea { width: 100%; box-sizing: border-box; font: inherit; resize: vertical; }
.fields { display: flex; flex-wrap: wrap; gap: .5rem 1rem; align-items: center; margin: .5rem 0; }
.fields input { font: inherit; width: 5rem; } .fields button { font: inherit; padding: .2rem 1rem; }
#text, #routes { border: 1px solid var(--line); border-radius: 4px; font-family: ui-monospace, monospace; }
#text { white-space: pre-wrap; overflow-wrap: anywhere; padding: .75rem; min-height: 6rem; }
#text .prompt { opacity: .7; }
#routes { display: grid; grid-auto-flow: column; grid-auto-columns: 9px; gap: 2px; padding: .5rem;
  justify-content: start; overflow-x: auto; margin-top: .5rem; }
#routes:empty { display: none; }
#routes i { height: 12px; border-radius: 2px; background: var(--line); opacity: .5; }
#routes i.entered { background: var(--entered); opacity: 1; }
.marked { outline: 2px solid var(--entered); outline-offset: 1px; }
#note { min-height: 1.5rem; margin: .5rem 0 0; }
#note.error { color: var(--error); }
.legend { font-size: .85rem; opacity: .7; margin: .5rem 0; }
</style></head><body>
<h1>Mixture of Depths</h1>
<form id="form"><textarea id="prompt" rows="3" aria-label="Prompt">ROMEO:</textarea>
<div class="fields">
<label>tokens <input id="max_tokens" type="number" value="200" min="1"></label>
<label>temperature <input id="temperature" type="number" value="0.8" min="0" step="any"></label>
<label>seed <input id="seed" type="number" value="0"></label>
<button id="write">Write</button> <button type="button" id="stop">Stop</button>
</div></form>
<div id="text"></div>
<div id="routes" role="img" aria-label="Routed blocks that each token entered"></div>
<p id="note" role="status"></p>
<p class="legend">In the strip: a column for each token, a row for each routed block, filled where the
token entered it. Point at a token to find its column.</p>
<script>
const $ = id => document.getElementById(id);
let abort = null;
$("stop").onclick = () => abort && abort.abort();
function note(text, is_error = false) {
  $("note").textContent = text;
  $("note").classList.toggle("error", is_error);
}
function add_piece(text, name) {
  const span = document.createElement("span");
  span.textContent = text;
  span.className = name;
  $("text").append(span);
  return span;
}
function show_route(span, route) {  // a route comes with the token after
  const blocks = route.map((x, i) => x ? i + 1 : 0).filter(x => x).join(", ");
  span.title = route.length ? `routed blocks entered: ${blocks || "none"} of ${route.length}` : "";
  $("routes").style.gridTemplateRows = `repeat(${route.length || 1}, 12px)`;
  const cells = route.map(entered => {
    const cell = document.createElement("i");
    cell.className = entered ? "entered" : "";
    cell.title = `${JSON.stringify(span.textContent.slice(-20))}: ${span.title}`;
    return cell;
  });
  $("routes").append(...cells);
  for (const from of [span, ...cells]) {
    from.onmouseenter = from.onmouseleave = event => [span, ...cells].forEach(
      x => x.classList.toggle("marked", event.type === "mouseenter"));
  }
}
$("form").onsubmit = async event => {
  event.preventDefault();
  if (abort) abort.abort();
  const mine = abort = new AbortController();
  $("text").replaceChildren();
  $("routes").replaceChildren();
  note("");
  const start = performance.now();
  let last = add_piece($("prompt").value, "prompt"), count = 0, is_done = false;
  try {
    const answer = await fetch("/v1/completions", { method: "POST", signal: mine.signal,
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ prompt: $("prompt").value, stream: true,
        max_tokens: +$("max_tokens").value, temperature: +$("temperature").value,
        seed: +$("seed").value }) });
    if (!answer.ok) throw new Error((await answer.json()).error.message);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = "";;) {
      const { done, value } = await reader.read();
      if (done) break;
      const parts = (rest + value).split("\n\n");
      rest = parts.pop();
      for (const part of parts) {
        if (part === "data: [DONE]") { is_done = true; continue; }
        const choice = JSON.parse(part.slice(6)).choices[0];
        show_route(last, choice.route);
        last = add_piece(choice.text, "token");
        ++count;
        note(`${count} tokens, ${(1000 * count / (performance.now() - start)).toFixed(1)} a second`);
      }
    }
    if (!is_done) throw new Error("the answer was cut off");
  } catch (error) { if (error.name !== "AbortError") note(error.message, true); }
};
</script></body></html>
)html";

}  // namespace lagom::lm
