// An author's PTX on elements: it works on the registers of a thread, `pack` at a time. Where a
// thread holds fewer, or a number that `pack` does not divide, the last one is repeated.
#include "ir/tile/InlineAsm.h"
#include "targets/Places.h"
#include "targets/nvidia/emit/Emitter.h"

#include "llvm/IR/InlineAsm.h"

using namespace mlir;

namespace nereid::nvidia {
namespace {

/// The register that a constraint's letter stands for; null where the value's own type decides.
llvm::Type *registerType(Emitter &e, char letter) {
  switch (letter) {
  case 'b':
    return e.b.getInt1Ty();
  case 'c':
  case 'h':
    return e.b.getInt16Ty();
  case 'r':
    return e.b.getInt32Ty();
  case 'l':
    return e.b.getInt64Ty();
  case 'q':
    return e.intType(128);
  case 'f':
    return e.b.getFloatTy();
  case 'd':
    return e.b.getDoubleTy();
  default:
    return nullptr;
  }
}

unsigned bitsOf(llvm::Type *type) {
  return type->isPointerTy() ? 64 : unsigned(type->getPrimitiveSizeInBits());
}

/// A value's bits as an integer of its own width.
llvm::Value *asInteger(Emitter &e, llvm::Value *value) {
  llvm::Type *type = value->getType();
  if (type->isPointerTy())
    return e.b.CreatePtrToInt(value, e.b.getInt64Ty());
  return type->isIntegerTy() ? value : e.b.CreateBitCast(value, e.intType(bitsOf(type)));
}

/// One register of an operand: its values side by side, the first in the lowest bits.
llvm::Value *toRegister(Emitter &e, llvm::ArrayRef<llvm::Value *> values, llvm::Type *type) {
  if (values.size() == 1 && (!type || values[0]->getType() == type))
    return values[0];
  unsigned each = std::max(8u, bitsOf(values[0]->getType()));
  unsigned width = each * unsigned(values.size());
  if (type)
    width = std::max(width, bitsOf(type));
  llvm::Value *word = nullptr;
  for (auto [i, value] : llvm::enumerate(values)) {
    llvm::Value *bits = e.b.CreateZExt(asInteger(e, value), e.intType(width));
    bits = i ? e.b.CreateShl(bits, i * each) : bits;
    word = word ? e.b.CreateOr(word, bits, "", /*IsDisjoint=*/true) : bits;
  }
  if (!type)
    return word;
  if (type->isIntegerTy(1))
    return e.b.CreateICmpNE(word, llvm::ConstantInt::get(word->getType(), 0));
  // A register that is too narrow is left for LLVM to complain about.
  return bitsOf(type) == width ? e.b.CreateBitCast(word, type) : word;
}

/// The values of one register of a result.
void fromRegister(Emitter &e, llvm::Value *word, unsigned count, llvm::Type *type, Values &out) {
  if (count == 1 && word->getType() == type)
    return out.push_back(word);
  word = asInteger(e, word);
  unsigned bits = bitsOf(type), each = std::max(8u, bits);
  for (unsigned i = 0; i < count; ++i) {
    llvm::Value *part = i ? e.b.CreateLShr(word, i * each) : word;
    if (bits == 1) {
      part = e.b.CreateTrunc(part, e.intType(std::min(each, bitsOf(word->getType()))));
      out.push_back(e.b.CreateICmpNE(part, llvm::ConstantInt::get(part->getType(), 0)));
      continue;
    }
    part = e.b.CreateZExtOrTrunc(part, e.intType(bits));
    out.push_back(type->isPointerTy() ? e.b.CreateIntToPtr(part, type)
                                      : e.b.CreateBitCast(part, type));
  }
}

/// The constraints' letters: of the outputs, then of the inputs ("0": its output's).
struct Letters {
  llvm::SmallVector<char> outputs, inputs;
};
Letters lettersOf(StringRef constraints) {
  Letters letters;
  for (const llvm::InlineAsm::ConstraintInfo &each :
       llvm::InlineAsm::ParseConstraints(constraints)) {
    char letter = each.Codes.empty() || each.Codes[0].size() != 1 ? 0 : each.Codes[0][0];
    if (each.Type == llvm::InlineAsm::isOutput) {
      letters.outputs.push_back(letter);
    } else if (each.Type == llvm::InlineAsm::isInput) {
      unsigned matched = unsigned(letter - '0');
      letters.inputs.push_back(matched < letters.outputs.size() ? letters.outputs[matched]
                                                                : letter);
    }
  }
  return letters;
}

void emitAsm(Emitter &e, tile::InlineAsmOp op) {
  Letters letters = lettersOf(op.getConstraints());
  if (letters.outputs.empty())
    return e.fail(op, "the constraints `" + op.getConstraints().str() + "` cannot be read");
  unsigned pack = op.getPack();
  unsigned count = e.registerCount(op.getResult().front().getType());
  llvm::SmallVector<Values> results(op.getNumResults());
  for (unsigned first = 0; first < count; first += pack) {
    auto at = [&](unsigned i) { return std::min(first + i, count - 1); };
    Values args;
    for (mlir::Value operand : op.getArgs()) {
      auto registers = e.get(operand);
      auto shared = tile::asmRegisters(bitsOf(registers[0]->getType()), pack);
      for (unsigned i = 0; i < pack; i += shared.perRegister) {
        Values values;
        for (unsigned j = i; j < std::min(i + shared.perRegister, pack); ++j)
          values.push_back(registers[at(j)]);
        char letter = args.size() < letters.inputs.size() ? letters.inputs[args.size()] : 0;
        args.push_back(toRegister(e, values, registerType(e, letter)));
      }
    }
    llvm::SmallVector<llvm::Type *> types;
    for (mlir::Value result : op.getResult()) {
      llvm::Type *element = e.type(result.getType());
      auto shared = tile::asmRegisters(bitsOf(element), pack);
      for (unsigned i = 0; i < shared.count; ++i) {
        char letter = types.size() < letters.outputs.size() ? letters.outputs[types.size()] : 0;
        llvm::Type *type = registerType(e, letter);
        if (!type)
          type = shared.perRegister == 1
                     ? element
                     : e.intType(shared.perRegister * std::max(8u, bitsOf(element)));
        types.push_back(type);
      }
    }
    bool isOne = types.size() == 1;
    llvm::Type *type = isOne ? types[0] : llvm::StructType::get(e.b.getContext(), types);
    // Convergent: it may hold barriers and shuffles.
    llvm::Value *words = e.ptx(type, op.getAssembly(), op.getConstraints(), args, !op.getPure(),
                               /*convergent=*/true);
    targets::notePlaces(*cast<llvm::CallInst>(words), op.getLoc());
    if (op.getPure() && !op.getConstraints().contains("~{memory}"))
      cast<llvm::CallInst>(words)->setDoesNotAccessMemory();
    unsigned word = 0;
    for (auto [result, registers] : llvm::zip(op.getResult(), results)) {
      llvm::Type *element = e.type(result.getType());
      auto shared = tile::asmRegisters(bitsOf(element), pack);
      for (unsigned i = 0; i < pack; i += shared.perRegister)
        fromRegister(e, isOne ? words : e.b.CreateExtractValue(words, word++),
                     std::min(shared.perRegister, pack - i), element, registers);
    }
  }
  for (auto [result, registers] : llvm::zip(op.getResult(), results)) {
    registers.truncate(count);
    e.set(result, registers);
  }
}

} // namespace

bool emitForeign(Emitter &e, Operation *op) {
  auto assembly = dyn_cast<tile::InlineAsmOp>(op);
  if (assembly)
    emitAsm(e, assembly);
  return bool(assembly);
}

} // namespace nereid::nvidia
