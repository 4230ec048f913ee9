#include "report/page/style.h"

namespace trireme::report {
namespace {

constexpr std::string_view kPageStyle = R"(
:root{color-scheme:light dark;
--page:#f7f6f2;--card:#fffefb;--ink:#1e2a33;--soft:#566472;--line:#e4e1d8;--lane:#f0eee7;
--c1:#1f5f8b;--c2:#b8532a;--c3:#2f7d6d;--c4:#7b4f8a;--c5:#946c0a;--c6:#55677a;
--forward:#4f8fba;--backward:#1f5f8b;--recompute:#a58bc0;--update:#4a9b8a;--wait:#dba63f;--exchange:#c96f4a;--none:#b9bec4;
--m1:#1f5f8b;--m2:#5d9cc4;--m3:#c96f4a;--m4:#e0b45c;--m5:#4a9b8a;--m6:#a58bc0;--m7:#9aa5af}
@media(prefers-color-scheme:dark){:root{
--page:#11171c;--card:#172027;--ink:#e4e9ed;--soft:#9fadb9;--line:#2b3741;--lane:#1e2930;
--c1:#74b3de;--c2:#eb9a70;--c3:#6cc5b1;--c4:#c59ad6;--c5:#dcb75a;--c6:#a9b8c6;
--forward:#8cc4ea;--backward:#4c8dbb;--recompute:#b39bd0;--update:#5fb3a1;--wait:#e3b65a;--exchange:#e08a63;--none:#5c6872;
--m1:#4c8dbb;--m2:#8cc4ea;--m3:#e08a63;--m4:#ecc981;--m5:#5fb3a1;--m6:#b39bd0;--m7:#7d8a96}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
header,main,footer{max-width:1240px;margin:0 auto;padding:0 24px}
header{padding-top:56px;padding-bottom:8px}
h1{font-size:clamp(1.7rem,4.5vw,2.7rem);font-weight:300;letter-spacing:-.015em;line-height:1.15;margin:0 0 10px;overflow-wrap:anywhere}
h2{font-size:1.12rem;font-weight:600;margin:0 0 4px}
h3{font-size:.95rem;font-weight:600;margin:12px 0 6px;overflow-wrap:anywhere;border-left:4px solid var(--c,var(--line));padding-left:8px}
h3.c1{--c:var(--c1)}h3.c2{--c:var(--c2)}h3.c3{--c:var(--c3)}h3.c4{--c:var(--c4)}h3.c5{--c:var(--c5)}h3.c6{--c:var(--c6)}
header p,.about,.note,footer{color:var(--soft)}
header p{margin:0 0 6px;max-width:80ch}
.about{margin:0 0 14px;font-size:.88rem;max-width:80ch}
nav ul{list-style:none;display:flex;flex-wrap:wrap;gap:2px 18px;padding:0;margin:18px 0 0;font-size:.88rem}
a{color:var(--c1);text-underline-offset:3px;text-decoration-thickness:1px}
nav a{display:inline-block;padding:4px 0}
.skip{position:absolute;left:-999px}.skip:focus{left:16px;top:16px;background:var(--card);padding:8px 14px}
:focus-visible{outline:3px solid var(--c2);outline-offset:3px;border-radius:4px}
main{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:20px;padding-top:20px;padding-bottom:20px}
.panel{background:var(--card);border:1px solid var(--line);border-radius:14px;padding:22px 24px;min-width:0}
.wide{grid-column:1/-1}
.runs{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,420px),1fr));gap:24px}
.run{min-width:0}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(128px,1fr));gap:18px;margin:10px 0 0}
.figures dt{font-size:.84rem;color:var(--soft)}
.figures dd{margin:0}
.figures .value{font-size:1.75rem;font-weight:300;letter-spacing:-.01em;font-variant-numeric:tabular-nums;white-space:nowrap}
.note{font-size:.78rem}
.missing{color:var(--soft);background:var(--lane);border-radius:8px;padding:12px 14px;margin:8px 0;font-size:.92rem}
figure{margin:0}figcaption{font-size:.84rem;color:var(--soft);margin-top:6px}
.multiples{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,380px),1fr));gap:10px 28px;margin-bottom:14px}
svg.chart,svg.timeline{display:block;width:100%;height:auto;overflow:visible}
.wide>svg.chart{max-width:640px}
svg.timeline{min-width:680px}
svg text{fill:var(--soft);font-size:13px;font-family:inherit;font-variant-numeric:tabular-nums}
svg.timeline text{font-size:12px}
.y-label,.axis-name,.mark-name{text-anchor:end}.x-label{text-anchor:middle}
.grid{stroke:var(--line);stroke-width:1}
.mark{stroke:var(--soft);stroke-width:1;stroke-dasharray:2 4}
.lane{fill:var(--lane)}
.chart g path{fill:none;stroke:var(--c);stroke-width:1.9;stroke-linejoin:round;stroke-linecap:round}
.chart .dotted path{stroke-dasharray:5 4}
.chart circle{fill:var(--c)}
g.c1{--c:var(--c1)}g.c2{--c:var(--c2)}g.c3{--c:var(--c3)}g.c4{--c:var(--c4)}g.c5{--c:var(--c5)}g.c6{--c:var(--c6)}
rect.c1{fill:var(--c1)}rect.c2{fill:var(--c2)}rect.c3{fill:var(--c3)}rect.c4{fill:var(--c4)}rect.c5{fill:var(--c5)}rect.c6{fill:var(--c6)}
.forward{fill:var(--forward)}.backward{fill:var(--backward)}.recompute{fill:var(--recompute)}.update{fill:var(--update)}
.wait{fill:var(--wait)}.exchange{fill:var(--exchange)}.none{fill:var(--none)}
.m1{fill:var(--m1)}.m2{fill:var(--m2)}.m3{fill:var(--m3)}.m4{fill:var(--m4)}.m5{fill:var(--m5)}.m6{fill:var(--m6)}.m7{fill:var(--m7)}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:4px 18px;margin:0 0 10px;padding:0;font-size:.84rem}
.legend li{display:flex;align-items:center;gap:7px}
.swatch{width:12px;height:12px;flex:none}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.87rem;font-variant-numeric:tabular-nums}
caption{text-align:left;color:var(--soft);font-size:.82rem;padding:2px 0 6px}
th,td{text-align:left;padding:5px 14px 5px 0;border-bottom:1px solid var(--line);vertical-align:middle;font-weight:400}
thead th{color:var(--soft);font-size:.8rem;white-space:nowrap}
tbody tr:last-child>*{border-bottom:0}
td{overflow-wrap:anywhere}
tr[data-rank]>th{white-space:nowrap}
td.number{white-space:nowrap}
td.graph{min-width:110px;width:45%}
tr.total>*{font-weight:600}
tr.differs>*{background:var(--lane)}
.bar{display:block;width:100%;height:14px}
details{margin-top:10px;border-top:1px solid var(--line);padding-top:8px}
summary{cursor:pointer;font-size:.87rem;color:var(--c1);padding:4px 0}
details .scroll{max-height:420px;overflow:auto}
details+.about{margin-top:12px}
footer{padding-bottom:48px;font-size:.82rem}
@media(max-width:900px){main{grid-template-columns:minmax(0,1fr)}}
@media(max-width:560px){header,main,footer{padding-left:12px;padding-right:12px}header{padding-top:28px}
main{gap:12px}.panel{padding:16px 14px;border-radius:10px}.figures{grid-template-columns:repeat(2,1fr)}svg text{font-size:16px}
svg.timeline{min-width:760px}svg.timeline text{font-size:16px}td.graph{min-width:70px;width:30%}th,td{padding-right:9px}}
@media(prefers-reduced-motion:no-preference){html{scroll-behavior:smooth}}
@media print{.panel{break-inside:avoid}nav,.skip{display:none}}
)";

}  // namespace

std::string_view page_style() {
  return kPageStyle;
}

std::string_view live_script() {
  return R"(
const status=document.getElementById('status');
async function refresh(){
  try{
    const text=await (await fetch(location.href,{cache:'no-store'})).text();
    const next=new DOMParser().parseFromString(text,'text/html');
    for(const old of document.querySelectorAll('header p.state,section.panel')){
      const now=next.getElementById(old.id);
      if(!now||now.innerHTML===old.dataset.seen||old.contains(document.activeElement))continue;
      const open=[...old.querySelectorAll('details')].map(d=>d.open);
      old.dataset.seen=now.innerHTML;
      old.innerHTML=now.innerHTML;
      old.querySelectorAll('details').forEach((d,i)=>{d.open=open[i]||false});
    }
    status.textContent='Live: updated '+new Date().toLocaleTimeString();
  }catch(error){status.textContent='The run has ended or cannot be reached; this is its last state.'}
}
setInterval(refresh,3000);
)";
}

}  // namespace trireme::report
