/* SPDX-License-Identifier: Apache-2.0 */
/* The page's style, light and dark, and the patterns: no meaning hangs on a colour alone. */
#include "torture/timeline/timeline_svg.h"

static const char page_style[] =
    ":root{color-scheme:light dark;--paper:#fff;--ink:#1b1f24;--soft:#59626e;--line:#dce0e6;"
    "--panel:#f5f6f8;--wait:#b3bac5;--hold:#1f9467;--on-hold:#fff;--bad:#c4122f;--on-bad:#fff;"
    "--bad-soft:#fdecee;--fault:#f3c14b;--fault-ink:#9a6700;--stop:#16181c;--on-stop:#fff}\n"
    "@media(prefers-color-scheme:dark){:root{--paper:#13161b;--ink:#e6e9ee;--soft:#9aa4b2;"
    "--line:#2c323b;--panel:#1a1e25;--wait:#5b6574;--hold:#3dbb88;--on-hold:#06231a;"
    "--bad:#ff6a78;--on-bad:#2b0309;--bad-soft:#34161c;--fault:#7d5d13;--fault-ink:#e3b04b;"
    "--stop:#eef0f3;--on-stop:#16181c}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0;background:var(--paper);color:var(--ink);"
    "font:15px/1.5 system-ui,-apple-system,\"Segoe UI\",Roboto,\"DejaVu Sans\",sans-serif}\n"
    "main{max-width:1048px;margin:0 auto;padding:32px 24px 64px}\n"
    "header{border-bottom:1px solid var(--line);padding-bottom:20px}\n"
    "h1{font-size:40px;line-height:1.15;letter-spacing:-.01em;margin:4px 0 8px;display:flex;"
    "align-items:center;gap:14px}\n"
    "h1 svg{width:40px;height:40px;flex:none}\n"
    "h2{font-size:20px;margin:40px 0 4px}\n"
    "p{margin:4px 0 10px}\n"
    ".run,.note,figcaption{color:var(--soft)}\n"
    ".run{font-size:14px;overflow-wrap:anywhere}\n"
    ".VIOLATION{color:var(--bad)}.SAFE-SO-FAR{color:var(--hold)}"
    ".INCONCLUSIVE{color:var(--fault-ink)}\n"
    ".lead{font-size:18px;overflow-wrap:anywhere}\n"
    ".figures{display:flex;flex-wrap:wrap;gap:10px 36px;margin:18px 0 0;padding:0}\n"
    ".figures div{min-width:64px}\n"
    ".figures dt{color:var(--soft);font-size:13px}\n"
    ".figures dd{margin:0;font-size:20px;font-weight:600;font-variant-numeric:tabular-nums}\n"
    "figure{margin:14px 0 0;overflow-x:auto}\n"
    "figure svg{display:block;width:100%;min-width:760px;height:auto}\n"
    "figcaption{font-size:13px;margin-top:4px}\n"
    "section+section{margin-top:36px}\n"
    ".finding{border-left:4px solid var(--bad);background:var(--bad-soft);padding:10px 14px;"
    "margin:12px 0 0;overflow-wrap:anywhere}\n"
    ".finding b{color:var(--bad)}\n"
    "table{border-collapse:collapse;width:100%;font-size:14px;margin-top:10px}\n"
    "table.holds{width:auto}table.holds td{padding-right:20px}\n"
    "table.narrow{max-width:720px}\n"
    "th{text-align:left;font-weight:600;color:var(--soft);font-size:13px}\n"
    "th,td{padding:5px 12px 5px 0;border-bottom:1px solid var(--line);vertical-align:top;"
    "overflow-wrap:anywhere}\n"
    "td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}\n"
    "tr.broken td{color:var(--bad);font-weight:600}\n"
    ".badge{display:inline-block;width:20px;height:20px;line-height:20px;border-radius:10px;"
    "text-align:center;background:var(--bad);color:var(--on-bad);font-weight:700;font-size:12px}\n"
    "ul.legend{display:flex;flex-wrap:wrap;gap:4px 22px;list-style:none;margin:8px 0 0;padding:0;"
    "font-size:13px;color:var(--soft)}\n"
    ".legend svg{width:26px;height:14px;vertical-align:-2px;margin-right:6px}\n";

static const char drawing_style[] =
    "svg text{font:12px system-ui,-apple-system,\"Segoe UI\",Roboto,\"DejaVu Sans\",sans-serif;"
    "fill:var(--ink)}\n"
    "svg .soft{fill:var(--soft)}svg .end{text-anchor:end}svg .mid{text-anchor:middle}\n"
    ".lane{fill:var(--panel)}.grid{stroke:var(--line);stroke-width:1}\n"
    ".wait{fill:var(--wait)}.hold{fill:var(--hold)}.share{fill:var(--hold);fill-opacity:.35}"
    ".tail{fill:var(--hold);opacity:.45}\n"
    ".maybe{fill:url(#maybe);stroke:var(--hold);stroke-dasharray:3 2}\n"
    "svg .token{fill:var(--on-hold);font-size:11px;font-variant-numeric:tabular-nums}\n"
    "svg .pale{fill:var(--ink)}\n"
    ".guilty{fill:none;stroke:var(--bad);stroke-width:2}\n"
    ".clash{fill:url(#clash);stroke:var(--bad)}\n"
    ".key{fill:var(--bad);opacity:.13}.edge{stroke:var(--bad);stroke-dasharray:4 3}\n"
    "svg .bad{fill:var(--bad);font-weight:600;paint-order:stroke;stroke:var(--panel);"
    "stroke-width:4px;stroke-linejoin:round}.dot{fill:var(--bad)}\n"
    "svg .letter{fill:var(--on-bad);font-weight:700;font-size:11px;text-anchor:middle}\n"
    ".band{fill:var(--fault);opacity:.28}.stop{fill:var(--stop)}\n"
    "svg .stopped{fill:var(--on-stop);font-size:10px}\n"
    ".hit{fill:var(--fault-ink)}.miss{fill:none;stroke:var(--fault-ink)}\n"
    "svg .fault{fill:var(--fault-ink)}\n"
    ".mark{stroke:var(--ink);stroke-width:1.5;fill:var(--paper)}\n"
    ".cross{stroke:var(--ink);stroke-width:3;fill:none}\n"
    ".healed{stroke:var(--soft);stroke-dasharray:2 3}\n"
    ".near{fill:none;stroke:var(--ink);stroke-width:1.5}\n"
    ".d1,.d2,.d3,.d4{fill:var(--hold)}.d1{opacity:.3}.d2{opacity:.5}.d3{opacity:.75}\n"
    ".slow{fill:none;stroke:var(--ink);stroke-width:1.5}\n";

void timeline_svg_style(FILE *file)
{
    fputs(page_style, file);
    fputs(drawing_style, file);
}

void timeline_svg_patterns(FILE *file)
{
    fputs("<svg width=\"0\" height=\"0\" style=\"position:absolute\" aria-hidden=\"true\"><defs>"
          "<pattern id=\"maybe\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">"
          "<path d=\"M0 6L6 0M-1 1L1 -1M5 7L7 5\" stroke=\"var(--hold)\" stroke-width=\"1.4\"/>"
          "</pattern>"
          "<pattern id=\"clash\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\">"
          "<rect width=\"5\" height=\"5\" fill=\"var(--bad)\"/>"
          "<path d=\"M0 5L5 0M0 0L5 5\" stroke=\"var(--on-bad)\" stroke-width=\".8\" "
          "opacity=\".7\"/></pattern>"
          "</defs></svg>\n",
          file);
}
