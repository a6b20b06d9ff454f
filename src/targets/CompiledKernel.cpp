#include "support/bytes.h"
#include "targets/target.h"

namespace nereid::targets {

void CompiledKernel::saveCommon(ByteWriter &out) const {
  out.text(name);
  out.list(params, [&](const Param &param) {
    out.text(param.name);
    out.number(param.kind);
  });
  out.number(scratchBytes);
  out.flag(independent);
  out.flag(usesTiles);
}

void CompiledKernel::restoreCommon(ByteReader &in) {
  name = in.text();
  in.list([&] {
    Param &param = params.emplace_back();
    param.name = in.text();
    param.kind = in.oneOf<ScalarKind>(ScalarKind::Pointer);
  });
  scratchBytes = in.number<uint64_t>();
  independent = in.flag();
  usesTiles = in.flag();
}

} // namespace nereid::targets
