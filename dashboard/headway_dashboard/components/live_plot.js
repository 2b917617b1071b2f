// A plotly chart that keeps its node, and with it the reader's zoom, while its data are replaced.
// Plotly itself comes from this server; nothing is fetched from elsewhere.

const loading = (window.__headwayPlotly ??= {});

function plotly(url) {
  return (loading[url] ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = url;
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => {
      delete loading[url];
      reject(new Error("plotly.min.js did not load"));
    };
    document.head.appendChild(script);
  }));
}

// Plotly's date axes know no time zone: show the reader's own clock.
const offset = (ms) => new Date(ms).getTimezoneOffset() * 60000;
const local = (ms) => ms - offset(ms);

// The other way: plotly writes the end of a dragged range as text, without a zone.
function utc(value) {
  const [day, clock = "00:00"] = `${value}`.trim().split(/[ T]/);
  const shown = typeof value === "number" ? value : Date.parse(`${day}T${clock}Z`);
  return shown + offset(shown + offset(shown));
}

const isOverTime = (layout) => layout.xaxis.type === "date";
const timeAxis = (layout, narrow) => ({
  range: layout.xaxis.range.map(local),
  showgrid: false,
  tickformat: "%H:%M:%S",
  nticks: narrow ? 3 : 6,
});

// A mark in full, with the time on the reader's clock.
const note = (one) => {
  if (one.xref === "paper") return one;
  const clock = new Date(one.x).toLocaleTimeString();
  return { ...one, x: local(one.x), ...(one.hovertext ? { hovertext: `${one.hovertext}<br>${clock}` } : {}) };
};

// On a wall all charts fit on the screen, whatever stands above them: both rows share what is left, up to `most`.
function wallHeight(most) {
  const charts = [...document.querySelectorAll(".headway-plot")];
  const tops = charts.map((one) => Math.round(one.getBoundingClientRect().top));
  const rows = new Set(tops).size;
  const below = document.querySelector(".st-key-headway-wall-empty")?.offsetHeight ?? 0;
  // A card is as high as its neighbour: around the highest chart of a row there is the frame alone.
  const around = charts.map((one) => one.closest('[class*="st-key-panel-"]').offsetHeight - one.offsetHeight);
  const frame = Math.min(...around) + 16;
  const free = window.innerHeight - Math.min(...tops) - below - 40 - frame * (rows - 1);
  return Math.max(110, Math.min(most, Math.floor(free / rows)));
}

function themed(layout, host) {
  const style = getComputedStyle(host);
  const text = style.getPropertyValue("--st-text-color").trim() || style.color;
  const line = style.getPropertyValue("--st-border-color-light").trim() || "rgba(128, 128, 128, 0.2)";
  const page = style.getPropertyValue("--st-background-color").trim() || "#ffffff";
  const narrow = host.clientWidth < 420;
  const wallPx = host.__headway.wallPx && wallHeight(host.__headway.wallPx);
  const size = wallPx ? 15 : 12;
  if (wallPx) host.style.minHeight = `${wallPx}px`;
  const axis = { gridcolor: line, linecolor: line, zerolinecolor: line, fixedrange: false, automargin: true };
  return {
    ...layout,
    paper_bgcolor: "rgba(0, 0, 0, 0)",
    plot_bgcolor: "rgba(0, 0, 0, 0)",
    ...(wallPx ? { height: wallPx } : {}),
    font: { family: style.fontFamily, size, color: text },
    // The same left margin for all: time axes above each other are in line, unless the labels of one need more room.
    margin: { l: wallPx ? 68 : 56, r: 12, t: wallPx ? 38 : 30, b: 8 },
    dragmode: wallPx ? false : "zoom",
    legend: { orientation: "h", x: 0, y: -0.14, yanchor: "top", font: { size }, itemwidth: 30, traceorder: "normal" },
    modebar: { bgcolor: "rgba(0, 0, 0, 0)", color: text, activecolor: text },
    hoverlabel: { bgcolor: page, bordercolor: line, font: { color: text }, namelength: -1 },
    xaxis: { ...axis, ...layout.xaxis, ...(isOverTime(layout) ? timeAxis(layout, narrow) : {}) },
    yaxis: { ...axis, ...layout.yaxis, fixedrange: true },
    shapes: layout.shapes.map((shape) => ({ ...shape, x0: local(shape.x0), x1: local(shape.x1) })),
    annotations: layout.annotations.map(note).map((one) => (wallPx ? { ...one, font: { ...one.font, size: 13 }, yshift: 1.5 * (one.yshift ?? 0) } : one)),
  };
}

function config(figure, wallPx) {
  return {
    displayModeBar: wallPx ? false : "hover",
    modeBarButtons: [["toImage"]],
    toImageButtonOptions: { format: "png", filename: `headway-${figure.layout.uirevision}`, scale: 2 },
    displaylogo: false,
    showTips: false,
    doubleClick: false,
    doubleClickDelay: 500,
    responsive: false,
  };
}

function draw(Plotly, host) {
  const { figure, zoom } = host.__headway;
  const times = figure.times_ms.map(local);
  const overTime = isOverTime(figure.layout);
  const at = (trace) => (trace.x === undefined ? times : overTime ? trace.x.map(local) : trace.x);
  const traces = figure.traces.map((trace) => ({ ...trace, x: at(trace) }));
  const layout = themed(figure.layout, host);
  if (overTime && zoom) layout.xaxis.range = [...zoom];
  return Plotly.react(host, traces, layout, config(figure, host.__headway.wallPx));
}

// The charts of a page show the same time: the zoom of one is that of all. The one that was dragged shows it already.
function zoomAll(Plotly, range, dragged) {
  for (const host of document.querySelectorAll(".headway-plot")) {
    if (!host.__headway) continue;
    host.__headway.zoom = range;
    host.__headway.button.hidden = !(range && host === dragged);
    if (host !== dragged && host.__headway.watched && isOverTime(host.__headway.figure.layout)) draw(Plotly, host);
  }
}

const zoomOfOthers = () =>
  [...document.querySelectorAll(".headway-plot")].map((host) => host.__headway?.zoom).find(Boolean) ?? null;

function watch(Plotly, host) {
  host.__headway.watched = true;
  host.on("plotly_relayout", (change) => {
    const from = change["xaxis.range[0]"];
    if (from === undefined || !isOverTime(host.__headway.figure.layout)) return;
    zoomAll(Plotly, [from, change["xaxis.range[1]"]], host);
  });
  host.on("plotly_doubleclick", () => zoomAll(Plotly, null));
  const resizer = new ResizeObserver(() => host.isConnected && Plotly.Plots.resize(host));
  resizer.observe(host.parentElement);
  host.__headway.resizer = resizer;
}

export default function ({ data, parentElement, setTriggerValue }) {
  const host = parentElement.querySelector(".headway-plot");
  const button = parentElement.querySelector(".headway-keep");
  const first = !host.__headway;
  host.__headway ??= { zoom: zoomOfOthers(), button };
  host.__headway.figure = data.figure;
  host.__headway.wallPx = data.wall_px;
  host.setAttribute("aria-label", data.figure.summary);
  if (!data.wall_px) host.style.minHeight = `${data.figure.layout.height}px`;
  button.onclick = () => {
    const chosen = host.__headway.zoom?.map(utc);
    zoomAll(window.Plotly, null);
    if (chosen) setTriggerValue("window", chosen);
  };
  plotly(data.plotly_url)
    .then((Plotly) => draw(Plotly, host).then(() => first && watch(Plotly, host)))
    .catch((error) => {
      host.textContent = `This chart cannot be drawn: ${error.message}`;
    });
  return () => {
    if (host.isConnected) return;
    host.__headway.resizer?.disconnect();
    window.Plotly?.purge(host);
  };
}
