#include "runtime/target_name.h"

#include "llvm/ADT/StringRef.h"

using namespace nereid::runtime;

std::optional<TargetName> TargetName::parse(std::string_view name) {
  llvm::StringRef text(name);
  if (text == "cpu")
    return TargetName{};
  if (text == "cuda")
    return TargetName{Backend::Cuda, 0};
  if (!text.starts_with("sm") && !text.consume_front("cuda:"))
    return std::nullopt;
  text.consume_back(":32"); // the warp size, in Triton's command line
  (void)(text.consume_front("sm_") || text.consume_front("sm"));
  text.consume_back("a");
  unsigned arch = 0;
  if (text.getAsInteger(10, arch) || arch < 50 || arch > 199)
    return std::nullopt;
  return TargetName{Backend::Cuda, uint16_t(arch)};
}

std::string TargetName::text() const {
  std::string text(backendText());
  return arch ? text + ":" + std::to_string(arch) : text;
}
