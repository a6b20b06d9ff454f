#include "targets/nvidia/emit/Words.h"

namespace nereid::nvidia {

std::string addressText(const Address &address, unsigned operand) {
  std::string text = "[$" + std::to_string(operand);
  if (address.offset)
    text += "+" + std::to_string(address.offset); // also in front of a minus
  return text + "]";
}

Words::Words(unsigned elementBits, unsigned elements) {
  unsigned total = elementBits * elements;
  bits = elementBits == 64 ? 64 : std::min(total, 32u);
  count = total / bits;
}

std::string Words::suffix() const {
  std::string text = "b" + std::to_string(bits);
  return count == 1 ? text : "v" + std::to_string(count) + "." + text;
}

std::string Words::operands(unsigned first) const {
  if (count == 1)
    return "$" + std::to_string(first);
  std::string text = "{";
  for (unsigned i = 0; i < count; ++i)
    text += (i ? ", $" : "$") + std::to_string(first + i);
  return text + "}";
}

Values joinWords(Emitter &e, llvm::ArrayRef<llvm::Value *> elements, const Words &words) {
  llvm::IRBuilder<> &b = e.b;
  unsigned perWord = elements.size() / words.count;
  llvm::Type *wordType = e.intType(words.bits);
  Values result;
  for (unsigned i = 0; i < words.count; ++i) {
    llvm::Value *word = elements[i * perWord];
    if (perWord > 1) {
      auto *pack = llvm::FixedVectorType::get(word->getType(), perWord);
      word = llvm::PoisonValue::get(pack);
      for (unsigned k = 0; k < perWord; ++k)
        word = b.CreateInsertElement(word, elements[i * perWord + k], uint64_t(k));
    }
    word = word->getType()->isPointerTy() ? b.CreatePtrToInt(word, wordType)
                                          : b.CreateBitCast(word, wordType);
    result.push_back(b.CreateZExt(word, e.intType(words.registerBits())));
  }
  return result;
}

Values splitWords(Emitter &e, llvm::ArrayRef<llvm::Value *> values, const Words &words,
                  llvm::Type *element, unsigned count) {
  llvm::IRBuilder<> &b = e.b;
  unsigned perWord = count / words.count;
  Values result;
  for (llvm::Value *word : values) {
    word = b.CreateTrunc(word, e.intType(words.bits));
    if (element->isPointerTy()) {
      result.push_back(b.CreateIntToPtr(word, element));
    } else if (perWord == 1) {
      result.push_back(b.CreateBitCast(word, element));
    } else {
      llvm::Value *pack = b.CreateBitCast(word, llvm::FixedVectorType::get(element, perWord));
      for (unsigned k = 0; k < perWord; ++k)
        result.push_back(b.CreateExtractElement(pack, uint64_t(k)));
    }
  }
  return result;
}

} // namespace nereid::nvidia
