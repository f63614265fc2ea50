#include "lagom/lm/server.h"

namespace lagom::lm {

const char* const kServerPage = R"html(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>lagom lm</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem; }
textarea { width: 100%; box-sizing: border-box; font: inherit; }
label { margin-right: 1rem; } input[type=number] { width: 5rem; }
#text { white-space: pre-wrap; overflow-wrap: anywhere; font-family: ui-monospace, monospace;
  border: 1px solid #8888; border-radius: 4px; padding: .75rem; min-height: 6rem; margin-top: 1rem; }
#text span:hover { outline: 1px solid; }
#note { min-height: 1.5rem; color: #777; }
</style></head><body>
<h1>Mixture of Depths</h1>
<form id="form"><textarea id="prompt" rows="3">ROMEO:</textarea>
<label>tokens <input id="max_tokens" type="number" value="200" min="1"></label>
<label>temperature <input id="temperature" type="number" value="0.8" min="0" step="0.1"></label>
<label>seed <input id="seed" type="number" value="0"></label>
<button>Write</button> <button type="button" id="stop">Stop</button></form>
<div id="text"></div><p id="note">The darker a token, the more routed blocks it entered.</p>
<script>
const $ = id => document.getElementById(id);
let abort = null;
$("stop").onclick = () => abort && abort.abort();
function show_route(span, route) {  // a route comes with the token after
  const entered = route.filter(x => x).length;
  const blocks = route.map((x, i) => x ? i + 1 : 0).filter(x => x).join(", ");
  span.dataset.route = route.join("");
  span.title = route.length ? `routed blocks entered: ${blocks || "none"} of ${route.length}` : "";
  span.style.background = `rgba(60, 120, 220, ${route.length ? .7 * entered / route.length : 0})`;
}
$("form").onsubmit = async event => {
  event.preventDefault();
  if (abort) abort.abort();
  abort = new AbortController();
  const text = $("text");
  text.textContent = "";
  let last = null, count = 0, start = performance.now();
  const add = piece => { last = document.createElement("span"); last.textContent = piece;
    text.append(last); };
  add($("prompt").value);
  try {
    const answer = await fetch("/v1/completions", { method: "POST", signal: abort.signal,
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
        if (part === "data: [DONE]") continue;
        const choice = JSON.parse(part.slice(6)).choices[0];
        show_route(last, choice.route);
        add(choice.text);
        ++count;
        $("note").textContent =
          `${count} tokens, ${(1000 * count / (performance.now() - start)).toFixed(1)} a second`;
      }
    }
  } catch (error) { if (error.name !== "AbortError") $("note").textContent = error.message; }
};
</script></body></html>
)html";

}  // namespace lagom::lm
