// The report as one page of HTML: nothing is fetched from elsewhere, and everything that comes from
// a file or from the compiler is escaped.
#include "faces/cli/json_fields.h"
#include "faces/cli/lines.h"
#include "faces/cli/picture.h"
#include "faces/cli/report.h"
#include "faces/cli/schedule.h"

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
h1 { font-size:1.35rem; margin:.2rem 0; overflow-wrap:anywhere; } h2 { font-size:1.05rem; margin:1.8rem 0 .5rem; } h3 { font-size:.95rem; margin:.8rem 0 .3rem; }
.quiet, .caption { color:var(--quiet); } .caption { margin:.2rem 0 .8rem; font-size:.85rem; }
code, pre, .mono { font-family: ui-monospace, Consolas, monospace; }
.cards { display:flex; flex-wrap:wrap; gap:.8rem; margin:1rem 0; }
.card { background:var(--panel); border:1px solid var(--edge); border-radius:6px; padding:.6rem .9rem; min-width:11rem; }
.about { overflow-wrap:anywhere; }
.card b { display:block; font-size:1.15rem; } .card span { color:var(--quiet); font-size:.85rem; }
table { border-collapse:collapse; } th, td { text-align:left; padding:.2rem .8rem .2rem 0; border-bottom:1px solid var(--edge); vertical-align:top; } th { color:var(--quiet); font-weight:500; }
td.n { text-align:right; }
.hint { border-left:4px solid var(--note); background:var(--panel); padding:.5rem .8rem; margin:.5rem 0; } .hint.cost { border-color:var(--cost); }
.hint p { margin:.15rem 0; } .hint pre { margin:.3rem 0; overflow-x:auto; } .hint b { text-transform:capitalize; }
.scroll { overflow-x:auto; }
.panes { display:flex; gap:.6rem; align-items:stretch; height:75vh; overflow-x:auto; }
.pane { flex:1 1 0; min-width:18rem; border:1px solid var(--edge); border-radius:6px; display:flex; flex-direction:column; overflow:hidden; resize:horizontal; } .pane[hidden] { display:none; }
@media (max-width:48rem) { body { padding:.8rem .8rem 3rem; } .panes { flex-direction:column; height:auto; } .pane { flex:none; min-width:0; height:20rem; resize:vertical; } }
.pane > header { white-space:nowrap; overflow:hidden; text-overflow:ellipsis; background:var(--panel); border-bottom:1px solid var(--edge); padding:.25rem .6rem; font-weight:600; }
.pane > div { overflow:auto; flex:1; position:relative; }
.pane pre { margin:0; padding:.3rem 0; font-size:12px; line-height:1.4; min-width:max-content; }
.pane pre span { display:block; padding:0 .6rem; white-space:pre; tab-size:4; } .pane pre span[data-l] { cursor:pointer; }
.pane pre .no { display:inline-block; width:3.2em; color:var(--quiet); font-style:normal; text-decoration:none; user-select:none; text-align:right; margin-right:.9em; }
.toggles { border:0; margin:.5rem 0; padding:0; } .toggles legend { position:absolute; clip-path:inset(50%); } .toggles label { margin-right:1rem; white-space:nowrap; }
:focus-visible { outline:2px solid var(--bar); outline-offset:-2px; }
a.go { color:inherit; cursor:pointer; text-decoration:underline dotted; white-space:nowrap; }
.bar { display:inline-block; height:.7rem; background:var(--bar); border-radius:2px; vertical-align:middle; margin-right:.5rem; }
details { margin:.4rem 0; } summary { cursor:pointer; }
svg { max-width:100%; height:auto; min-width:36rem; } svg [data-l] { cursor:pointer; }
)css";

constexpr const char *kScript = R"js(
(() => {
  const hover = document.getElementById('hover'), pin = document.getElementById('pin');
  const panes = document.querySelector('.panes');
  const rule = (line, colour) => line ? `span[data-l="${line}"]{background:var(${colour})} svg [data-l="${line}"] rect{stroke-width:3}` : '';
  const lineOf = (element) => {
    const found = element && element.closest && element.closest('[data-l],[data-go]');
    const line = found && (found.dataset.l || found.dataset.go);
    return line && /^[1-9]\d*$/.test(line) ? line : '';
  };
  let pinned = '';
  const show = (pane, line) => {
    const first = pane.querySelector(`span[data-l="${line}"]`), box = pane.querySelector('div');
    if (first) box.scrollTop = first.offsetTop - box.clientHeight / 3;
  };
  const keep = (line, from) => {
    pinned = line;
    pin.textContent = rule(line, '--pin');
    if (!line || !panes) return;
    for (const pane of panes.querySelectorAll('.pane:not([hidden])'))
      if (pane !== from) show(pane, line);
    if (!from) panes.scrollIntoView({block: 'center'});
  };
  const point = (event) => {
    const text = rule(lineOf(event.target), '--hover');
    if (hover.textContent !== text) hover.textContent = text;
  };
  document.addEventListener('mouseover', point);
  document.addEventListener('focusin', point);
  document.addEventListener('click', (event) => {
    const line = lineOf(event.target);
    if (!line || String(getSelection())) return;
    if (event.target.closest('a')) event.preventDefault();
    const from = event.target.closest('.pane');
    keep(from && pinned === line ? '' : line, from);
  });
  document.addEventListener('keydown', (event) => { if (event.key === 'Escape') keep('', null); });
  for (const box of document.querySelectorAll('.toggles input'))
    box.addEventListener('change', () => {
      const pane = document.getElementById('pane-' + box.value);
      pane.hidden = !box.checked;
      if (box.checked && pinned) show(pane, pinned);
    });
  // The kernel, not the beginning of its file.
  const source = panes && panes.querySelector('#pane-source'), first = source && source.querySelector('span[data-l]');
  if (first) source.querySelector('div').scrollTop = first.offsetTop - 40;
  const asked = /^#L([1-9]\d*)$/.exec(location.hash);
  if (asked) keep(asked[1], null);
})();
)js";

/// HTML of a text with `names` in it.
std::string withCode(llvm::StringRef text) {
  std::string out;
  while (!text.empty()) {
    auto [before, rest] = text.split('`');
    out += escaped(before);
    if (before.size() == text.size())
      break;
    auto [name, after] = rest.split('`');
    out += name.size() == rest.size() ? "`" + escaped(name) : "<code>" + escaped(name) + "</code>";
    text = after;
  }
  return out;
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
  void pane(const std::string &id, const std::string &title, const std::string &about,
            const std::string &content);
  void accesses();
  void products();
  void shared();
  void layouts();
  void times();
  /// A link to the place of an object, or nothing.
  std::string line(const json::Object &object) {
    int64_t number = lineOf(object);
    return number ? formatv("<a class=\"go\" href=\"#L{0}\" data-go=\"{0}\">line {0}</a>", number)
                        .str()
                  : "";
  }
  std::string type(const json::Object &object) { return escaped(typeOf(object)); }
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

/// Cells are HTML; columns without any content are left out.
void Page::table(const std::vector<std::string> &head,
                 const std::vector<std::vector<std::string>> &rows) {
  std::vector<size_t> columns;
  for (size_t i = 0; i < head.size(); ++i)
    if (llvm::any_of(rows, [&](auto &row) { return i < row.size() && !row[i].empty(); }))
      columns.push_back(i);
  out += "<div class=\"scroll\"><table><tr>";
  for (size_t i : columns)
    out += "<th scope=\"col\">" + escaped(head[i]) + "</th>";
  out += "</tr>\n";
  for (const std::vector<std::string> &row : rows) {
    out += "<tr>";
    for (size_t i : columns)
      out += "<td>" + (i < row.size() ? row[i] : "") + "</td>";
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
      card(memoryText(numberOf(used, "spill_bytes")), "spilled a thread");
    } else {
      card("not known", "registers a thread");
    }
    card(memoryText(numberOf(used, "shared_bytes")),
         "shared memory of " + memoryText(numberOf(used, "shared_limit")));
    if (const json::Object *occupancy = report.getObject("occupancy"))
      card(formatv("{0} / {1}", numberOf(*occupancy, "warps"), numberOf(*occupancy, "warps_most")),
           "warps resident, limited by " + textOf(*occupancy, "limit"));
  } else {
    card(memoryText(numberOf(used, "scratch_bytes")), "scratch memory a thread");
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
  const json::Object *source = report.getObject("source");
  std::vector<std::string> lines = splitLines(source ? textOf(*source, "text") : "");
  int64_t first = source ? numberOf(*source, "first_line") : 1;
  for (const json::Value &value : *all) {
    const json::Object &hint = *value.getAsObject();
    std::string at = line(hint), text;
    const json::Object *place = hint.getObject("place");
    int64_t number = place ? numberOf(*place, "line") : 0;
    if (source && number >= first && number - first < int64_t(lines.size()) &&
        textOf(*place, "file") == textOf(*source, "file"))
      text = "<pre>" + escaped(llvm::StringRef(lines[number - first]).trim()) + "</pre>";
    std::string severity = escaped(textOf(hint, "severity"));
    out += "<div class=\"hint " + severity + "\"><p><b>" + severity + "</b> " +
           (at.empty() ? "" : at + ": ") + withCode(textOf(hint, "what")) + "</p>" + text +
           "<p class=\"quiet\">" + withCode(textOf(hint, "remedy")) + "</p></div>\n";
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
  table({"what", "time"}, list);
  if (view.machine && view.machine->threads)
    out += "<p class=\"caption\">rates that " + escaped(view.machine->name) +
           formatv(" reached on {0} threads: {1}, {2}</p>\n", view.machine->threads,
                   amountText(view.machine->bandwidth, "B/s"),
                   amountText(view.machine->rate("fp32"), "FLOP/s"))
               .str();
  else if (view.machine)
    out += "<p class=\"caption\">peak rates of " + escaped(view.machine->name) +
           formatv(": {0}, {1} multiprocessors at {2:F0} MHz</p>\n",
                   amountText(view.machine->bandwidth, "B/s"), view.machine->multiprocessors,
                   view.machine->clock / 1e6)
               .str();
}

void Page::pane(const std::string &id, const std::string &title, const std::string &about,
                const std::string &content) {
  out +=
      formatv("<section class=\"pane\" id=\"pane-{0}\"><header title=\"{1}\">{2}</header><div "
              "tabindex=\"0\" role=\"region\" aria-label=\"{2}\"><pre>{3}</pre></div></section>\n",
              id, escaped(about), escaped(title), content)
          .str();
}

void Page::panes() {
  const json::Object *source = report.getObject("source");
  if (!source)
    return;
  out += "<h2>Source and code</h2>\n<fieldset class=\"toggles\"><legend>what is shown</legend>"
         "<label><input type=\"checkbox\" value=\"source\" checked> source</label>";
  for (const StageText &stage : view.stages)
    out += formatv("<label><input type=\"checkbox\" value=\"{0}\" checked> {1}</label>",
                   escaped(stage.name), escaped(stage.title))
               .str();
  out +=
      "<span class=\"quiet\">point at a line to see its generated code; click to keep it, Escape "
      "lets it go</span></fieldset>\n<div class=\"panes\">\n";
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
    if (size_t(number) < linked.size() && linked[number])
      content +=
          formatv("<span data-l=\"{0}\" id=\"L{0}\"><a class=\"no\" href=\"#L{0}\">{0}</a>", number)
              .str();
    else
      content += formatv("<span><i class=\"no\">{0}</i>", number).str();
    content += escaped(text) + "\n</span>";
    ++number;
  }
  std::string file = textOf(*source, "file");
  pane("source",
       llvm::StringRef(file).rsplit('/').second.empty()
           ? file
           : llvm::StringRef(file).rsplit('/').second.str(),
       file, content);
  for (const StageText &stage : view.stages) {
    content.clear();
    // Lines next to each other that stand for no line of the source are one piece.
    bool open = false;
    for (auto [text, place] : llvm::zip(stage.lines, stage.places)) {
      if (!place) {
        content += open ? "" : "<span>";
        open = true;
      } else {
        content +=
            (open ? "</span><span data-l=\"" : "<span data-l=\"") + std::to_string(place) + "\">";
        open = false;
      }
      content += escaped(text) + (place ? "\n</span>" : "\n");
    }
    content += open ? "</span>" : "";
    if (!stage.missing.empty())
      content = "<span>" + escaped(stage.missing) + "</span>";
    pane(stage.name, stage.title, stage.title, content);
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
  std::vector<std::string> head{"line", "what", "type", "of", gpu ? "by way of" : "as"};
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
    table({"line", "size", "types", "computed by", "why not better"}, list);
  }
  auto blocks = rows("blocks", [&](const json::Object &block) -> std::vector<std::string> {
    std::string why = textOf(block, "why");
    return {line(block), type(block), why.empty() ? "where the launch's arguments admit it" : "no",
            escaped(why)};
  });
  if (!blocks.empty()) {
    out += "<h2>Blocks through pointers</h2>\n";
    table({"line", "block", "through the copy engine", "why not"}, blocks);
  }
  auto loops = rows("loops", [&](const json::Object &loop) -> std::vector<std::string> {
    int64_t stages = numberOf(loop, "stages");
    return {line(loop), "<code>" + escaped(textOf(loop, "text")) + "</code>",
            !numberOf(report, "sm") ? ""
            : stages                ? formatv("{0} stages", stages).str()
                                    : "no",
            escaped(textOf(loop, "why"))};
  });
  if (!loops.empty()) {
    out += "<h2>Loops</h2>\n";
    table({"line", "turns", "loads fetched ahead", "why not"}, loops);
  }
  std::vector<std::string> schedule = scheduleLines(report);
  if (!schedule.empty()) {
    out += "<h2>Divided warps</h2>\n<pre>";
    for (const std::string &one : schedule)
      out += escaped(one) + "\n";
    out += "</pre>\n";
  }
  std::vector<std::string> work = workLines(report);
  if (!work.empty()) {
    out += "<h2>Work of one program</h2>\n<ul>";
    for (const std::string &one : work)
      out += "<li>" + withCode(one) + "</li>";
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
      out += "<details><summary>" + std::to_string(list.size()) +
             (list.size() == 1 ? " access" : " accesses") + " by threads</summary>\n";
      table({"line", "what", "byte", "at once", "bank conflicts"}, list);
      out += "</details>\n";
    }
  }
  auto conversions = rows("conversions", [&](const json::Object &one) -> std::vector<std::string> {
    return {line(one), type(one), escaped(textOf(one, "how")),
            formatv("{0:F0}", one.getNumber("cycles").value_or(0))};
  });
  if (!conversions.empty()) {
    out += "<h2>Changes of layout</h2>\n";
    table({"line", "type", "through", "cycles, about"}, conversions);
  }
}

void Page::layouts() {
  const json::Array *all = report.getArray("layouts");
  if (!all || all->empty())
    return;
  out += "<h2>Layouts</h2>\n";
  // Tensors with one layout are drawn once.
  std::vector<std::pair<std::string, std::vector<const json::Object *>>> groups;
  for (const json::Value &value : *all) {
    const json::Object &fact = *value.getAsObject();
    std::string key = type(fact) + " " + textOf(fact, "text");
    auto known = llvm::find_if(groups, [&](auto &group) { return group.first == key; });
    if (known == groups.end())
      groups.push_back({key, {&fact}});
    else
      known->second.push_back(&fact);
  }
  size_t size = 0;
  for (const auto &[key, facts] : groups) {
    std::string title, places;
    for (const json::Object *fact : facts) {
      const json::Object *place = fact->getObject("place");
      int64_t number = place ? numberOf(*place, "line") : 0;
      std::string what = escaped(textOf(*fact, "what"));
      title += (title.empty() ? "" : "; ") +
               (number ? "line " + std::to_string(number) + " " : std::string()) + what;
      places += (places.empty() ? "" : ", ") + line(*fact);
    }
    const json::Object &fact = *facts.front();
    out += "<details><summary>" + title + " <span class=\"mono\">" + type(fact) +
           "</span></summary>\n<p class=\"caption\">" + places + " <span class=\"mono\">" +
           escaped(textOf(fact, "text")) + "</span></p>\n";
    // A page stays readable: the pictures of unusually many layouts are left out.
    if (size < (size_t(4) << 20)) {
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
        "</style>\n<style id=\"pin\"></style><style "
        "id=\"hover\"></style>\n</head>\n<body>\n<main>\n<h1>" +
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
  out += "<p class=\"quiet mono about\">" + escaped(about) + "</p>\n";
  cards();
  advice();
  launch();
  panes();
  accesses();
  products();
  shared();
  layouts();
  times();
  return out + "</main>\n<script>" + kScript + "</script>\n</body>\n</html>\n";
}

} // namespace

std::string reportPage(const ReportView &view) {
  return Page(view).write();
}

} // namespace nereid::cli
