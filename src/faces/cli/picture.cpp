#include "faces/cli/picture.h"

#include "explain/Report.h"

#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <cmath>

namespace json = llvm::json;
using llvm::formatv;
using nereid::layout::Axis;

namespace nereid::cli {

std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text)
    switch (c) {
    case '&':
      out += "&amp;";
      break;
    case '<':
      out += "&lt;";
      break;
    case '>':
      out += "&gt;";
      break;
    case '"':
      out += "&quot;";
      break;
    case '\'':
      out += "&#39;";
      break;
    default:
      // XML has no other control characters.
      if (static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t')
        out += c;
      else
        out += "\xef\xbf\xbd";
    }
  return out;
}

namespace {

/// Cells drawn at most, rows, and cells of a row, so that what stands in a cell can be read.
constexpr int64_t kMostCells = 512, kMostRows = 64, kMostRowCells = 32;
constexpr double kWidth = 900; ///< of a picture

/// Where one element is: all axes' indices.
struct Spot {
  int64_t reg = 0, lane = 0, warp = 0, block = 0, offset = 0;
};

Spot spotOf(const layout::LinearLayout &map, uint64_t place) {
  Spot spot;
  for (auto [axis, field] : {std::pair(Axis::Register, &Spot::reg),
                             {Axis::Lane, &Spot::lane},
                             {Axis::Warp, &Spot::warp},
                             {Axis::Block, &Spot::block},
                             {Axis::Offset, &Spot::offset}}) {
    spot.*field = int64_t(place & uint64_t(map.size(axis) - 1));
    place >>= map.bits(axis);
  }
  return spot;
}

/// A colour as SVG of any age has it, `#rrggbb`: hue in degrees, saturation and lightness in
/// percent.
std::string colour(int64_t hue, int64_t saturation, int64_t lightness) {
  double light = double(lightness) / 100;
  double strength = double(saturation) / 100 * std::min(light, 1 - light);
  auto part = [&](int64_t offset) {
    double k = std::fmod(double(offset) + double(hue) / 30, 12);
    return unsigned(
        std::lround(255 * (light - strength * std::max(-1.0, std::min({k - 3, 9 - k, 1.0})))));
  };
  return formatv("#{0:x-2}{1:x-2}{2:x-2}", part(0), part(8), part(4));
}

std::string colourOf(const Spot &spot, int64_t warps, bool shared, int64_t bank) {
  if (shared)
    return colour(bank * 360 / 32, 60, bank % 2 ? 62 : 72);
  return colour(spot.warp * 360 / std::max<int64_t>(warps, 1), 55, 62 + spot.lane * 26 / 32);
}

/// What is drawn; `turned`: the tensor's rows from left to right, so that a thread's neighbouring
/// elements are side by side in a picture of a column-major layout, too.
struct Table {
  int64_t rows = 1, columns = 1; ///< of the picture
  bool turned = false;
  int64_t shownRows = 1, shownColumns = 1;
};

/// A one-dimensional tensor is written in lines.
Table tableOf(const layout::LinearLayout &map, int64_t cellElements, bool turned) {
  Table table;
  table.turned = turned;
  unsigned rank = map.rank();
  table.columns = rank ? map.shape()[rank - 1] : 1;
  table.rows = rank > 1 ? map.shape()[rank - 2] : 1;
  int64_t mostColumns = kMostRowCells * cellElements;
  if (rank <= 1 && table.columns > mostColumns) {
    table.rows = table.columns / mostColumns;
    table.columns = mostColumns;
  }
  if (turned)
    std::swap(table.rows, table.columns);
  table.shownColumns = std::min(table.columns, mostColumns);
  table.shownRows = std::min(table.rows, kMostRows);
  while (table.shownRows * table.shownColumns / cellElements > kMostCells && table.shownRows > 8)
    table.shownRows /= 2;
  return table;
}

} // namespace

std::string layoutPicture(const json::Object &fact) {
  const json::Object *object = fact.getObject("layout");
  auto map = object ? explain::layoutFromJson(*object) : std::nullopt;
  if (!map)
    return "";
  const json::Object *type = fact.getObject("type");
  int64_t bits = type ? type->getInteger("bits").value_or(32) : 32;
  bool shared = map->bits(Axis::Offset) > 0;
  int64_t bytes = std::max<int64_t>(bits / 8, 1);
  layout::BitMatrix matrix = map->matrix();

  auto spotAt = [&](int64_t flat) -> std::optional<Spot> {
    auto place = matrix.solve(uint64_t(flat));
    return place ? std::optional(spotOf(*map, *place)) : std::nullopt;
  };
  auto bankOf = [&](const Spot &spot) { return spot.offset * bytes / 4 % 32; };
  /// Elements side by side that are one cell.
  auto together = [&](const Spot &a, const Spot &b) {
    if (a.warp != b.warp || a.lane != b.lane || a.block != b.block)
      return false;
    return !shared || (b.offset > a.offset && a.offset * bytes / 16 == b.offset * bytes / 16);
  };
  // The first row tells how many elements a cell has.
  Table table = tableOf(*map, 1, false);
  auto first = spotAt(0);
  auto meets = [&](int64_t flat) {
    auto next = first ? spotAt(flat) : std::nullopt;
    return next && together(*first, *next);
  };
  bool turned =
      map->rank() > 1 && table.rows > 1 && !(table.columns > 1 && meets(1)) && meets(table.columns);
  if (turned)
    table = tableOf(*map, 1, true);
  auto flatOf = [&](int64_t row, int64_t column) {
    return turned ? column * table.rows + row : row * table.columns + column;
  };
  int64_t cellElements = 1;
  while (cellElements < table.columns && meets(flatOf(0, cellElements)))
    ++cellElements;
  table = tableOf(*map, cellElements, turned);

  double cell = std::clamp(kWidth / double(table.shownColumns), 1.0, 48.0);
  int height = 14;
  double left = 34, top = 16;
  double width = left + cell * double(table.shownColumns) + 4;
  double total = top + double(height * table.shownRows) + 4;
  std::string svg =
      formatv("<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"layout\" "
              "viewBox=\"0 0 {0:F0} {1:F0}\" width=\"{0:F0}\" height=\"{1:F0}\" "
              "role=\"img\" aria-label=\"layout of {2}\" font-size=\"9\" "
              "font-family=\"monospace\">\n",
              width, total, escaped(type ? type->getString("text").value_or("").str() : ""));
  for (int64_t column = 0; column < table.shownColumns;
       column += std::max<int64_t>(cellElements, table.shownColumns / 16))
    svg += formatv("<text x=\"{0:F1}\" y=\"11\" fill=\"currentColor\">{1}</text>\n",
                   left + cell * double(column), column);
  for (int64_t row = 0; row < table.shownRows; ++row) {
    double y = top + double(height * row);
    bool inLines = map->rank() <= 1 && table.rows > 1;
    svg += formatv("<text x=\"0\" y=\"{0:F1}\" fill=\"currentColor\">{1}</text>\n", y + 10,
                   inLines ? row * table.columns : row);
    for (int64_t column = 0; column < table.shownColumns;) {
      auto spot = spotAt(flatOf(row, column));
      int64_t count = 1;
      Spot last = spot.value_or(Spot());
      for (; spot && column + count < table.shownColumns; ++count) {
        auto next = spotAt(flatOf(row, column + count));
        if (!next || !together(*spot, *next))
          break;
        last = *next;
      }
      if (spot) {
        std::string label, title;
        std::string span = formatv("{0} {1}, {2}s {3} to {4}: ", turned ? "column" : "row", row,
                                   turned ? "row" : "column", column, column + count - 1);
        if (shared) {
          label = std::to_string(spot->offset);
          title = formatv("{0}offsets {1} to {2} (bytes {3}...), bank {4}", span, spot->offset,
                          last.offset, spot->offset * bytes, bankOf(*spot));
        } else {
          label = formatv("{0}:{1}", spot->warp, spot->lane);
          title = formatv("{0}warp {1}, lane {2}, registers {3} to {4}", span, spot->warp,
                          spot->lane, spot->reg, last.reg);
        }
        double w = cell * double(count);
        svg += formatv("<g><title>{0}</title><rect x=\"{1:F1}\" y=\"{2:F1}\" width=\"{3:F1}\" "
                       "height=\"13\" fill=\"{4}\"/>",
                       escaped(title), left + cell * double(column), y, w - 0.7,
                       colourOf(*spot, map->size(Axis::Warp), shared, bankOf(*spot)));
        if (w >= 5.4 * double(label.size()) + 1) // a letter is 0.6 of the font's size wide
          svg += formatv("<text x=\"{0:F1}\" y=\"{1:F1}\" fill=\"#111\">{2}</text>",
                         left + cell * double(column) + 0.7, y + 10, label);
        svg += "</g>\n";
      }
      column += count;
    }
  }
  svg += "</svg>\n";
  std::string caption =
      shared ? "a cell: up to 16 bytes, with the offset of its first element; colours are banks"
             : "a cell: elements of one thread, as warp:lane; point at it for the registers";
  if (table.shownRows < table.rows || table.shownColumns < table.columns)
    caption += formatv("; the first {0} of {1} {2} and {3} of {4} {5}", table.shownRows, table.rows,
                       turned ? "columns" : "rows", table.shownColumns, table.columns,
                       turned ? "rows" : "columns")
                   .str();
  if (turned)
    caption += "; drawn turned, the tensor's rows from left to right";
  if (map->rank() > 2)
    caption += "; of the other dimensions the first element";
  if (const json::Array *sizes = type ? type->getArray("sizes") : nullptr)
    for (auto [dim, size] : llvm::enumerate(*sizes))
      if (dim < map->rank() && size.getAsInteger().value_or(1) != map->shape()[dim])
        caption += formatv("; dimension {0} repeats it {1} times", dim,
                           *size.getAsInteger() / map->shape()[dim])
                       .str();
  return svg + "<p class=\"caption\">" + escaped(caption) + "</p>\n";
}

std::string sharedPicture(const json::Object &shared) {
  const json::Array *buffers = shared.getArray("buffers"), *ops = shared.getArray("ops");
  int64_t total = shared.getInteger("bytes").value_or(0);
  if (!buffers || buffers->empty() || !ops || total <= 0)
    return "";
  double width = 900, height = std::clamp(40.0 + 60.0 * double(buffers->size()), 160.0, 420.0);
  double left = 70, bottom = 30, count = std::max<double>(double(ops->size()), 1);
  auto x = [&](double op) { return left + (width - left) * op / count; };
  auto y = [&](double byte) { return 6 + height * byte / double(total); };
  std::string svg = formatv(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"shared\" viewBox=\"0 0 {0:F0} {1:F0}\" "
      "width=\"{0:F0}\" height=\"{1:F0}\" role=\"img\" aria-label=\"shared memory over the "
      "program\" font-size=\"10\" font-family=\"monospace\">\n",
      width + 8, height + bottom + 8);
  for (int tick = 0; tick <= 4; ++tick) {
    double byte = double(total) * tick / 4;
    svg += formatv("<line x1=\"{0:F1}\" x2=\"{1:F1}\" y1=\"{2:F1}\" y2=\"{2:F1}\" "
                   "stroke=\"currentColor\" stroke-opacity=\"0.15\"/><text x=\"0\" y=\"{3:F1}\" "
                   "fill=\"currentColor\">{4}</text>\n",
                   left, width, y(byte), y(byte) + 4, int64_t(byte));
  }
  int64_t lastLine = -1;
  double lastX = -100;
  for (auto [number, value] : llvm::enumerate(*ops)) {
    const json::Object *op = value.getAsObject();
    int64_t line = op ? op->getInteger("line").value_or(0) : 0;
    if (!line || line == lastLine || x(double(number)) - lastX < 34)
      continue;
    svg += formatv("<text x=\"{0:F1}\" y=\"{1:F1}\" fill=\"currentColor\" data-l=\"{2}\" "
                   "class=\"ln\">{2}</text>\n",
                   x(double(number)), height + 20, line);
    lastLine = line;
    lastX = x(double(number));
  }
  svg += formatv("<text x=\"0\" y=\"{0:F1}\" fill=\"currentColor\">line</text>\n", height + 20);
  for (auto [number, value] : llvm::enumerate(*buffers)) {
    const json::Object &buffer = *value.getAsObject();
    auto integer = [&](llvm::StringRef name) { return buffer.getInteger(name).value_or(0); };
    const json::Object *place = buffer.getObject("place");
    int64_t line = place ? place->getInteger("line").value_or(0) : 0;
    double from = x(double(integer("begin"))), to = x(double(integer("end") + 1));
    double high = y(double(integer("offset"))),
           low = y(double(integer("offset") + integer("bytes")));
    std::string what = buffer.getString("what").value_or("").str();
    std::string title = formatv("{0}, line {1}: bytes {2} to {3}", what, line, integer("offset"),
                                integer("offset") + integer("bytes"));
    svg +=
        formatv("<g class=\"ln\" data-l=\"{0}\"><title>{1}</title><rect x=\"{2:F1}\" y=\"{3:F1}\" "
                "width=\"{4:F1}\" height=\"{5:F1}\" fill=\"{6}\" stroke=\"#333\"/>",
                line, escaped(title), from, high, std::max(to - from, 1.5),
                std::max(low - high, 1.0), colour(int64_t(number * 67 % 360), 55, 68));
    // As much of the name as fits.
    size_t fits = size_t(std::max(0.0, (to - from - 4) / 6.1));
    if (low - high > 11 && fits > 2)
      svg += formatv("<text x=\"{0:F1}\" y=\"{1:F1}\" fill=\"#111\">{2}</text>", from + 3,
                     high + 11, escaped(what.substr(0, fits)));
    svg += "</g>\n";
  }
  if (const json::Array *accesses = shared.getArray("accesses"))
    for (const json::Value &value : *accesses) {
      const json::Object &access = *value.getAsObject();
      int64_t offset = access.getInteger("offset").value_or(-1);
      int64_t conflicts = access.getInteger("conflicts").value_or(1);
      if (offset < 0)
        continue;
      double atX = x(double(access.getInteger("op").value_or(0)) + 0.5),
             atY = y(double(offset)) + 18;
      svg += formatv("<g><title>{0}, bank conflicts: {1}</title><circle cx=\"{2:F1}\" "
                     "cy=\"{3:F1}\" r=\"4\" fill=\"{4}\" stroke=\"#111\"/>",
                     escaped(access.getString("what").value_or("").str()),
                     conflicts == 1 ? "none" : std::to_string(conflicts), atX, atY,
                     conflicts == 1 ? "#2a6" : "#d22");
      if (conflicts > 1)
        svg += formatv("<text x=\"{0:F1}\" y=\"{1:F1}\" fill=\"#d22\">{2}</text>", atX + 6, atY + 4,
                       conflicts);
      svg += "</g>\n";
    }
  return svg + "</svg>\n<p class=\"caption\">from left to right the program's operations, from "
               "top to bottom bytes; green: an access without bank conflicts, red: with as many "
               "turns</p>\n";
}

} // namespace nereid::cli
