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
const local = (ms) => ms - new Date(ms).getTimezoneOffset() * 60000;

function themed(layout, host) {
  const style = getComputedStyle(host);
  const text = style.getPropertyValue("--st-text-color").trim() || style.color;
  const line = style.getPropertyValue("--st-border-color-light").trim() || "rgba(128, 128, 128, 0.2)";
  const page = style.getPropertyValue("--st-background-color").trim() || "#ffffff";
  const narrow = host.clientWidth < 420;
  const axis = { gridcolor: line, linecolor: line, zerolinecolor: line, fixedrange: false, automargin: true };
  return {
    ...layout,
    paper_bgcolor: "rgba(0, 0, 0, 0)",
    plot_bgcolor: "rgba(0, 0, 0, 0)",
    font: { family: style.fontFamily, size: 12, color: text },
    margin: { l: 8, r: 12, t: 30, b: 8 },
    dragmode: "zoom",
    legend: { orientation: "h", x: 0, y: -0.14, yanchor: "top", font: { size: 12 }, itemwidth: 30, traceorder: "normal" },
    hoverlabel: { bgcolor: page, bordercolor: line, font: { color: text } },
    xaxis: { ...axis, ...layout.xaxis, range: layout.xaxis.range.map(local), showgrid: false, tickformat: "%H:%M:%S", nticks: narrow ? 3 : 6 },
    yaxis: { ...axis, ...layout.yaxis, fixedrange: true },
    shapes: layout.shapes.map((shape) => ({ ...shape, x0: local(shape.x0), x1: local(shape.x1) })),
    annotations: layout.annotations.map((note) => (note.xref === "paper" ? note : { ...note, x: local(note.x) })),
  };
}

function draw(Plotly, host) {
  const { figure } = host.__headway;
  const times = figure.times_ms.map(local);
  const traces = figure.traces.map((trace) => ({ ...trace, x: times }));
  const layout = themed(figure.layout, host);
  if (host.__headway.zoom) layout.xaxis.range = host.__headway.zoom;
  const config = { displayModeBar: false, displaylogo: false, doubleClick: false, doubleClickDelay: 500, responsive: false };
  return Plotly.react(host, traces, layout, config);
}

function watch(Plotly, host) {
  host.on("plotly_relayout", (change) => {
    const from = change["xaxis.range[0]"];
    if (from !== undefined) host.__headway.zoom = [from, change["xaxis.range[1]"]];
  });
  host.on("plotly_doubleclick", () => {
    host.__headway.zoom = null;
    draw(Plotly, host);
  });
  const resizer = new ResizeObserver(() => host.isConnected && Plotly.Plots.resize(host));
  resizer.observe(host.parentElement);
  host.__headway.resizer = resizer;
}

export default function ({ data, parentElement }) {
  const host = parentElement.querySelector(".headway-plot");
  const first = !host.__headway;
  host.__headway ??= { zoom: null };
  host.__headway.figure = data.figure;
  host.setAttribute("aria-label", data.figure.summary);
  host.style.minHeight = `${data.figure.layout.height}px`;
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
