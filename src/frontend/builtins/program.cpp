// Which program this is.
#include "frontend/builtins/families.h"
#include "ir/tile/Dialect.h"

namespace nereid::frontend {

template <typename Op> static FailureOr<Value> gridQuery(Semantic &s, const BoundArgs &args) {
  auto axis = s.knownInt(args["axis"], "`axis`", args.span("axis"));
  if (failed(axis))
    return failure();
  if (*axis < 0 || *axis > 2)
    return s.error(diag::GridAxis, args.span("axis"), args.row().name, *axis);
  Type type = Type::of(DType::Int32);
  mlir::Type ir = type.toIR(*s.builder.getContext());
  return Value(Semantic::wrap(Op::create(s.builder, s.loc(), ir, uint32_t(*axis)), type));
}

std::vector<Builtin> programBuiltins() {
  return {
      {.name = "program_id",
       .signature = "(axis)",
       .doc = R"(The index of this program along one axis of the launch grid.

:param axis: 0, 1 or 2, known during compilation.
:returns: an int32 scalar.)",
       .build = &gridQuery<tile::ProgramIdOp>,
       .category = "Programs"},
      {.name = "num_programs",
       .signature = "(axis)",
       .doc = R"(The number of programs along one axis of the launch grid.

:param axis: 0, 1 or 2, known during compilation.
:returns: an int32 scalar.)",
       .build = &gridQuery<tile::NumProgramsOp>,
       .category = "Programs"},
  };
}

} // namespace nereid::frontend
