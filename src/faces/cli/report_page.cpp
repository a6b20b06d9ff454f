// The report as one page of HTML: nothing is fetched from elsewhere, and everything that comes from
// a file or from the compiler is escaped.
#include "faces/cli/lines.h"
#include "faces/cli/picture.h"
#include "faces/cli/report.h"

#include "llvm/Support/FormatVariadic.h"

namespace json = llvm::json;
using llvm::formatv;

namespace nereid::cli {
namespace {

constexpr const char *kStyle = R"css(
:root { --back:#fff; --text:#1b1f24; --quiet:#667; --edge:#d4d9e0; --panel:#f6f8fa; --hover:#fff3c4; --pin:#ffe08a; --cost:#b42318; --note:#8a6100; --bar:#4c7fd0; }
@media (prefers-color-scheme: dark) {
  :root { --back:#14171b; --text:#dde3ea; --quiet:#93a0b0; --edge:#333a44; --panel:#1b2026; --hover:#3a3413; --pin:#5c4d10; --cost:#ff8a7a; --note:#e6b94d; --bar:#5d8fe0; }
}
* { box-sizing: border-box; }
body { margin:0 auto; padding:1.2rem 1.5rem 4rem; max-width:120rem; background:var(--back); color:var(--text); font:14px/1.45 system-ui, sans-serif; }
h1 { font-size:1.35rem; margin:.2rem 0; } h2 { font-size:1.05rem; margin:1.8rem 0 .5rem; } h3 { font-size:.95rem; margin:.8rem 0 .3rem; }
.quiet, .caption { color:var(--quiet); } .caption { margin:.2rem 0 .8rem; font-size:.85rem; }
code, pre, .mono { font-family: ui-monospace, Consolas, monospace; }
.cards { display:flex; flex-wrap:wrap; gap:.8rem; margin:1rem 0; }
.card { background:var(--panel); border:1px solid var(--edge); border-radius:6px; padding:.6rem .9rem; min-width:11rem; }
.card b { display:block; font-size:1.15rem; } .card span { color:var(--quiet); font-size:.85rem; }
table { border-collapse:collapse; } th, td { text-align:left; padding:.2rem .8rem .2rem 0; border-bottom:1px solid var(--edge); vertical-align:top; } th { color:var(--quiet); font-weight:500; }
td.n { text-align:right; }
.hint { border-left:4px solid var(--note); background:var(--panel); padding:.5rem .8rem; margin:.5rem 0; } .hint.cost { border-color:var(--cost); }
.hint p { margin:.15rem 0; }
.scroll { overflow-x:auto; }
.panes { display:flex; gap:.6rem; align-items:stretch; height:75vh; }
.pane { flex:1 1 0; min-width:0; border:1px solid var(--edge); border-radius:6px; display:flex; flex-direction:column; overflow:hidden; } .pane[hidden] { display:none; }
.pane > header { background:var(--panel); border-bottom:1px solid var(--edge); padding:.25rem .6rem; font-weight:600; }
.pane > div { overflow:auto; flex:1; position:relative; }
.pane pre { margin:0; padding:.3rem 0; font-size:12px; line-height:1.4; min-width:max-content; }
.pane pre span { display:block; padding:0 .6rem; white-space:pre; } .pane pre span[data-l] { cursor:pointer; }
.pane pre i { display:inline-block; width:3.2em; color:var(--quiet); font-style:normal; user-select:none; text-align:right; margin-right:.9em; }
.toggles label { margin-right:1rem; }
a[data-go] { color:inherit; cursor:pointer; text-decoration:underline dotted; }
.bar { display:inline-block; height:.7rem; background:var(--bar); border-radius:2px; vertical-align:middle; margin-right:.5rem; }
details { margin:.4rem 0; } summary { cursor:pointer; }
svg { max-width:100%; height:auto; }
)css";

constexpr const char *kScript = R"js(
(() => {
  const hover = document.getElementById('hover'), pin = document.getElementById('pin');
  const rule = (line, colour) => line ? `span[data-l="${line}"]{background:var(${colour})} svg [data-l="${line}"] rect{stroke-width:3}` : '';
  const lineOf = (event) => {
    const found = event.target.closest && event.target.closest('[data-l],[data-go]');
    const line = found && (found.dataset.l || found.dataset.go);
    return line && /^\d+$/.test(line) ? line : '';
  };
  let pinned = '';
  document.addEventListener('mouseover', (event) => { hover.textContent = rule(lineOf(event), '--hover'); });
  document.addEventListener('click', (event) => {
    const line = lineOf(event);
    if (!line) return;
    const from = event.target.closest('.pane');
    pinned = from && pinned === line ? '' : line;
    pin.textContent = rule(pinned, '--pin');
    if (!pinned) return;
    for (const pane of document.querySelectorAll('.pane:not([hidden])')) {
      const first = pane !== from && pane.querySelector(`span[data-l="${line}"]`);
      const box = pane.querySelector('div');
      if (first) box.scrollTop = first.offsetTop - box.clientHeight / 3;
    }
    if (!from) document.querySelector('.panes').scrollIntoView({block: 'center'});
  });
  for (const box of document.querySelectorAll('.toggles input'))
    box.addEventListener('change', () => { document.getElementById('pane-' + box.value).hidden = !box.checked; });
})();
)js";

std::string textOf(const json::Object &object, llvm::StringRef name) {
  return object.getString(name).value_or("").str();
}
int64_t numberOf(const json::Object &object, llvm::StringRef name) {
  return object.getInteger(name).value_or(0);
}

class Page {
public:
  explicit Page(const ReportView &view) : view(view), report(view.report) {}
  std::string write();

private:
  void cards();
  void card(const std::string &value, const std::string &name) {
    out += "<div class=\"card\"><b>" + escaped(value) + "</b><span>" + escaped(name) +
           "</span></div>\n";
  }
  void advice();
  void launch();
  void panes();
  void pane(const std::string &id, const std::string &title, const std::string &content,
            bool hidden);
  void accesses();
  void products();
  void shared();
  void layouts();
  void times();
  /// A link to the place of an object, or nothing.
  std::string line(const json::Object &object) {
    const json::Object *place = object.getObject("place");
    int64_t number = place ? numberOf(*place, "line") : 0;
    return number ? formatv("<a data-go=\"{0}\">line {0}</a>", number).str() : "";
  }
  std::string type(const json::Object &object) {
    const json::Object *type = object.getObject("type");
    return type ? escaped(textOf(*type, "text")) : "";
  }
  void table(const std::vector<std::string> &head,
             const std::vector<std::vector<std::string>> &rows);
  template <typename Each>
  std::vector<std::vector<std::string>> rows(llvm::StringRef list, Each each) {
    std::vector<std::vector<std::string>> all;
    if (const json::Array *array = report.getArray(list))
      for (const json::Value &value : *array)
        all.push_back(each(*value.getAsObject()));
    return all;
  }

  const ReportView &view;
  const json::Object &report;
  std::string out;
};

/// Cells are HTML.
void Page::table(const std::vector<std::string> &head,
                 const std::vector<std::vector<std::string>> &rows) {
  out += "<div class=\"scroll\"><table><tr>";
  for (const std::string &cell : head)
    out += "<th>" + escaped(cell) + "</th>";
  out += "</tr>\n";
  for (const std::vector<std::string> &row : rows) {
    out += "<tr>";
    for (const std::string &cell : row)
      out += "<td>" + cell + "</td>";
    out += "</tr>\n";
  }
  out += "</table></div>\n";
}

void Page::cards() {
  const json::Object &used = *report.getObject("resources");
  out += "<div class=\"cards\">\n";
  if (numberOf(report, "sm")) {
    if (auto registers = used.getInteger("registers")) {
      card(std::to_string(*registers), "registers a thread");
      card(std::to_string(numberOf(used, "spill_bytes")) + " B", "spilled a thread");
    }
    card(formatv("{0} B", numberOf(used, "shared_bytes")),
         formatv("shared memory of {0}", numberOf(used, "shared_limit")));
    if (const json::Object *occupancy = report.getObject("occupancy"))
      card(formatv("{0} / {1}", numberOf(*occupancy, "warps"), numberOf(*occupancy, "warps_most")),
           "warps resident, limited by " + textOf(*occupancy, "limit"));
  } else {
    card(formatv("{0} B", numberOf(used, "scratch_bytes")), "scratch memory a thread");
  }
  if (view.estimate) {
    card(amountText(view.estimate->requested, "B"), "asked for by the launch");
    if (double flops = view.estimate->flops(); flops > 0)
      card(amountText(flops, "FLOP"), "computed");
    if (view.machine)
      card(timeText(view.estimate->least()), "at least, bound by " + view.estimate->bound);
  }
  if (view.measured) {
    card(timeText(view.measured->median), "measured on " + view.measured->device);
    if (view.estimate)
      card(amountText(view.estimate->moved / view.measured->median, "B/s"), "measured bandwidth");
  }
  out += "</div>\n";
}

void Page::advice() {
  out += "<h2>Advice</h2>\n";
  const json::Array *all = report.getArray("hints");
  if (!all || all->empty()) {
    out += "<p class=\"quiet\">Nothing that the compiler knows of.</p>\n";
    return;
  }
  for (const json::Value &value : *all) {
    const json::Object &hint = *value.getAsObject();
    std::string at = line(hint);
    out += formatv("<div class=\"hint {0}\"><p>{1}{2}</p><p class=\"quiet\">{3}</p></div>\n",
                   escaped(textOf(hint, "severity")), at.empty() ? "" : at + ": ",
                   escaped(textOf(hint, "what")), escaped(textOf(hint, "remedy")))
               .str();
  }
}

void Page::launch() {
  if (!view.estimate)
    return;
  out += "<h2>Launch</h2>\n<p class=\"mono\">" + escaped(view.launch) + "</p>\n";
  std::vector<std::vector<std::string>> list;
  double most = view.measured ? view.measured->median : 0;
  for (const auto &[name, seconds] : view.estimate->seconds)
    most = std::max(most, seconds);
  auto add = [&](const std::string &name, double seconds) {
    list.push_back(
        {escaped(name), formatv("<span class=\"bar\" style=\"width:{0:F0}px\"></span>{1}",
                                most > 0 ? 300 * seconds / most : 0, timeText(seconds))
                            .str()});
  };
  for (const auto &[name, seconds] : view.estimate->seconds)
    if (seconds > 0)
      add(name + ", at peak rate", seconds);
  if (view.measured)
    add("measured", view.measured->median);
  table({"", "time"}, list);
  if (view.machine)
    out += "<p class=\"caption\">peak rates of " + escaped(view.machine->name) +
           formatv(": {0}, {1} multiprocessors at {2:F0} MHz</p>\n",
                   amountText(view.machine->bandwidth, "B/s"), view.machine->multiprocessors,
                   view.machine->clock / 1e6)
               .str();
}

void Page::pane(const std::string &id, const std::string &title, const std::string &content,
                bool hidden) {
  out += formatv("<section class=\"pane\" id=\"pane-{0}\"{1}><header>{2}</header><div><pre>{3}"
                 "</pre></div></section>\n",
                 id, hidden ? " hidden" : "", escaped(title), content)
             .str();
}

void Page::panes() {
  const json::Object *source = report.getObject("source");
  if (!source)
    return;
  out += "<h2>Source and code</h2>\n<p class=\"toggles\">";
  for (const StageText &stage : view.stages)
    out += formatv("<label><input type=\"checkbox\" value=\"{0}\" checked> {1}</label>",
                   escaped(stage.name), escaped(stage.title))
               .str();
  out += "<span class=\"quiet\">point at a line to see what became of it; click to keep it</span>"
         "</p>\n<div class=\"panes\">\n";
  // Only lines from which code was made can be linked.
  std::vector<bool> linked;
  for (const StageText &stage : view.stages)
    for (unsigned place : stage.places) {
      if (place >= linked.size())
        linked.resize(place + 1, false);
      linked[place] = true;
    }
  std::string content;
  int64_t number = numberOf(*source, "first_line");
  for (const std::string &text : splitLines(textOf(*source, "text"))) {
    bool has = size_t(number) < linked.size() && linked[number];
    content +=
        formatv("<span{0}><i>{1}</i>{2}</span>",
                has ? formatv(" data-l=\"{0}\"", number).str() : "", number, escaped(text) + "\n")
            .str();
    ++number;
  }
  pane("source", textOf(*source, "file"), content, false);
  for (const StageText &stage : view.stages) {
    content.clear();
    std::vector<std::string> lines = splitLines(stage.text);
    for (size_t i = 0; i < lines.size(); ++i) {
      unsigned place = i < stage.places.size() ? stage.places[i] : 0;
      content += place ? "<span data-l=\"" + std::to_string(place) + "\">" : "<span>";
      content += escaped(lines[i]) + "\n</span>";
    }
    if (!stage.missing.empty())
      content = "<span>" + escaped(stage.missing) + "</span>";
    pane(stage.name, stage.title, content, false);
  }
  out += "</div>\n";
}

void Page::accesses() {
  bool gpu = numberOf(report, "sm") != 0;
  auto list = rows("accesses", [&](const json::Object &access) -> std::vector<std::string> {
    std::string where = textOf(access, "parameter");
    std::vector<std::string> row{line(access), escaped(textOf(access, "what")), type(access),
                                 where.empty() ? "" : "<code>" + escaped(where) + "</code>",
                                 escaped(textOf(access, "route"))};
    if (gpu && textOf(access, "route") == "copy engine") {
      row.insert(row.end(), {"", "", ""});
    } else if (gpu) {
      auto stride = access.getInteger("lane_stride");
      row.push_back(std::to_string(numberOf(access, "bytes")));
      row.push_back(stride ? std::to_string(*stride) : "not known");
      row.push_back(formatv("{0} ({1} needed)", numberOf(access, "sectors"),
                            numberOf(access, "least_sectors")));
    }
    return row;
  });
  if (list.empty())
    return;
  out += "<h2>Accesses to memory</h2>\n";
  std::vector<std::string> head{"", "", "type", "of", gpu ? "by way of" : "as"};
  if (gpu)
    head.insert(head.end(), {"bytes a thread", "bytes from lane to lane", "sectors a warp"});
  table(head, list);
}

void Page::products() {
  auto list = rows("products", [&](const json::Object &product) -> std::vector<std::string> {
    std::string sizes;
    if (const json::Array *shape = product.getArray("shape"))
      for (const json::Value &size : *shape)
        sizes += std::to_string(size.getAsInteger().value_or(0)) + " x ";
    return {line(product), sizes + std::to_string(numberOf(product, "k")),
            escaped(textOf(product, "a") + " x " + textOf(product, "b") + " -> " +
                    textOf(product, "accumulator")),
            escaped(textOf(product, "unit")), escaped(textOf(product, "why"))};
  });
  if (!list.empty()) {
    out += "<h2>Products</h2>\n";
    table({"", "size", "types", "computed by", "why not better"}, list);
  }
  auto loops = rows("loops", [&](const json::Object &loop) -> std::vector<std::string> {
    int64_t stages = numberOf(loop, "stages");
    return {line(loop), "<code>" + escaped(textOf(loop, "text")) + "</code>",
            stages ? formatv("{0} stages", stages).str() : "no", escaped(textOf(loop, "why"))};
  });
  if (!loops.empty()) {
    out += "<h2>Loops</h2>\n";
    table({"", "turns", "loads fetched ahead", "why not"}, loops);
  }
  std::vector<std::string> work = workLines(report);
  if (!work.empty()) {
    out += "<h2>Work of one program</h2>\n<ul>";
    for (const std::string &one : work)
      out += "<li class=\"mono\">" + escaped(one) + "</li>";
    out += "</ul>\n";
  }
}

void Page::shared() {
  const json::Object *shared = report.getObject("shared");
  if (!shared)
    return;
  std::string picture = sharedPicture(*shared);
  if (!picture.empty()) {
    out += "<h2>Shared memory over the program</h2>\n<div class=\"scroll\">" + picture + "</div>\n";
    std::vector<std::vector<std::string>> list;
    if (const json::Array *all = shared->getArray("accesses"))
      for (const json::Value &value : *all) {
        const json::Object &access = *value.getAsObject();
        int64_t matrices = numberOf(access, "matrices"), conflicts = numberOf(access, "conflicts");
        list.push_back({line(access), escaped(textOf(access, "what")),
                        std::to_string(numberOf(access, "offset")),
                        matrices ? formatv("{0} matrices", matrices).str()
                                 : formatv("{0} bytes a lane", numberOf(access, "bytes")).str(),
                        conflicts == 1 ? "none" : formatv("{0} turns", conflicts).str()});
      }
    if (!list.empty()) {
      out +=
          "<details><summary>" + std::to_string(list.size()) + " accesses by threads</summary>\n";
      table({"", "", "byte", "at once", "bank conflicts"}, list);
      out += "</details>\n";
    }
  }
  auto conversions = rows("conversions", [&](const json::Object &one) -> std::vector<std::string> {
    return {line(one), type(one), escaped(textOf(one, "how")),
            formatv("{0:F0}", one.getNumber("cycles").value_or(0))};
  });
  if (!conversions.empty()) {
    out += "<h2>Changes of layout</h2>\n";
    table({"", "type", "through", "cycles, about"}, conversions);
  }
}

void Page::layouts() {
  const json::Array *all = report.getArray("layouts");
  if (!all || all->empty())
    return;
  out += "<h2>Layouts</h2>\n";
  size_t size = 0;
  for (const json::Value &value : *all) {
    const json::Object &fact = *value.getAsObject();
    out += "<details><summary>" + line(fact) + " " + escaped(textOf(fact, "what")) +
           " <span class=\"mono\">" + type(fact) + "</span></summary>\n<p class=\"mono caption\">" +
           escaped(textOf(fact, "text")) + "</p>\n";
    // A page stays readable: the pictures of unusually many layouts are left out.
    if (size < (size_t(6) << 20)) {
      std::string picture = layoutPicture(fact);
      size += picture.size();
      out += "<div class=\"scroll\">" + picture + "</div>\n";
    }
    out += "</details>\n";
  }
}

void Page::times() {
  double most = 0;
  if (const json::Array *all = report.getArray("times"))
    for (const json::Value &value : *all)
      most = std::max(most, value.getAsObject()->getNumber("ms").value_or(0));
  auto list = rows("times", [&](const json::Object &stage) -> std::vector<std::string> {
    double ms = stage.getNumber("ms").value_or(0);
    return {escaped(textOf(stage, "stage")),
            formatv("<span class=\"bar\" style=\"width:{0:F0}px\"></span>{1:F2} ms",
                    most > 0 ? 300 * ms / most : 0, ms)
                .str()};
  });
  if (list.empty())
    return;
  out += "<h2>Compilation</h2>\n";
  table({"stage", "time"}, list);
  std::string assembler = textOf(*report.getObject("resources"), "assembler");
  if (!assembler.empty())
    out += "<p class=\"caption\">" + escaped(assembler) + "</p>\n";
}

std::string Page::write() {
  std::string title = textOf(report, "kernel") + " for " + textOf(report, "target");
  out = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<meta name=\"color-scheme\" content=\"light dark\">\n<title>" +
        escaped(title) + "</title>\n<style>" + kStyle +
        "</style>\n<style id=\"pin\"></style><style id=\"hover\"></style>\n</head>\n<body>\n<h1>" +
        escaped(title) + "</h1>\n";
  std::string about;
  if (const json::Object *metadata = report.getObject("metadata")) {
    if (numberOf(report, "sm"))
      about = formatv("{0} warps, {1} stages; ", numberOf(*metadata, "num_warps"),
                      numberOf(*metadata, "num_stages"));
    if (const json::Array *params = metadata->getArray("params"))
      for (const json::Value &value : *params) {
        const json::Object &param = *value.getAsObject();
        about += (about.empty() || about.ends_with("; ") ? "" : ", ") + textOf(param, "name") +
                 ": " + textOf(param, "signature");
      }
  }
  out += "<p class=\"quiet mono\">" + escaped(about) + "</p>\n";
  cards();
  advice();
  launch();
  panes();
  accesses();
  products();
  shared();
  layouts();
  times();
  return out + "<script>" + kScript + "</script>\n</body>\n</html>\n";
}

} // namespace

std::string reportPage(const ReportView &view) {
  return Page(view).write();
}

} // namespace nereid::cli
