#include "targets/cpu/Kernel.h"

#include "support/bytes.h"
#include "targets/cpu/support_library/SupportLibrary.h"

namespace nereid::cpu {

std::optional<std::string> CpuKernel::text(llvm::StringRef stage, std::string &why) const {
  const std::string *kept = stage == "tile"    ? &tile
                            : stage == "loops" ? &loops
                            : stage == "llir"  ? &llir
                                               : nullptr;
  if (kept && !kept->empty())
    return *kept;
  if (stage == "asm" && !llir.empty() && assembly)
    return assembly(llir, why);
  return std::nullopt;
}

std::optional<std::string> CpuKernel::object(std::string &) const {
  return std::string(code.begin(), code.end());
}

bool CpuKernel::save(ByteWriter &out) const {
  saveCommon(out);
  const auto *table = static_cast<const SiteTable *>(sites.get());
  out.list(table ? table->sites : std::vector<Site>(), [&](const Site &site) {
    out.list(site.places, [&](const SitePlace &place) {
      out.text(place.file);
      out.number(int32_t(place.line));
      out.number(int32_t(place.column));
      out.text(place.source);
      out.number(int32_t(place.indent));
    });
    out.text(site.text);
    out.flag(site.hex);
    out.list(site.operands, [&](const PrintOperand &operand) {
      out.number(operand.kind);
      out.list(operand.shape, [&](int64_t size) { out.number(size); });
    });
  });
  out.text({code.data(), code.size()});
  return true;
}

void CpuKernel::restore(ByteReader &in) {
  restoreCommon(in);
  SiteTable table;
  in.list([&] {
    Site &site = table.sites.emplace_back();
    in.list([&] {
      SitePlace &place = site.places.emplace_back();
      place.file = in.text();
      place.line = in.number<int32_t>();
      place.column = in.number<int32_t>();
      place.source = in.text();
      place.indent = in.number<int32_t>();
    });
    site.text = in.text();
    site.hex = in.flag();
    in.list([&] {
      PrintOperand &operand = site.operands.emplace_back();
      operand.kind = in.number<ElementKind>();
      in.list([&] { operand.shape.push_back(in.number<int64_t>()); });
    });
  });
  if (!table.sites.empty())
    sites = std::make_shared<const SiteTable>(std::move(table));
  std::string_view bytes = in.text();
  code.assign(bytes.begin(), bytes.end());
}

} // namespace nereid::cpu
