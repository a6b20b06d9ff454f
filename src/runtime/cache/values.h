// Values of the front end as bytes, equal in every process for what is equal to a compilation.
//
// Numbers, texts, types and tuples are written by value. A function is written by its text; a
// function, object or class of the host, whose address means nothing elsewhere, is an entity and
// gets the number of its first appearance: so bytes tell which things are the same thing, and what
// is in an object shows in the answers to questions about it (questions.h).
#pragma once

#include "frontend/function.h"
#include "frontend/value.h"
#include "support/bytes.h"

#include "llvm/ADT/DenseMap.h"

#include <optional>
#include <vector>

namespace nereid::runtime::cache {

class Entities {
public:
  struct Entity {
    const frontend::Function *function = nullptr; ///< null for an object of the host
    std::string text;                             ///< the hash of the function's
    uint64_t handle = 0;                          ///< of the object
    std::string typeName;
    std::shared_ptr<const frontend::Class> cls; ///< where it is a class of aggregates
  };

  /// Writes a value. False when it cannot be written: it holds something known only at run time, or
  /// (`known`) an entity that has not appeared before.
  bool write(const frontend::Value &value, ByteWriter &out, bool known = false);
  /// Reads a value. nullopt when the bytes refer to an entity that has not appeared before.
  std::optional<frontend::Value> read(ByteReader &in) const;

  void writeType(const frontend::Type &type, ByteWriter &out) const;

  /// The number of a function of the host (by its host data) or of an object; nothing when it has
  /// not appeared.
  std::optional<uint32_t> numberOf(const frontend::Function &function) const;
  std::optional<uint32_t> numberOf(uint64_t handle) const;
  const Entity *find(uint32_t number) const { return number < all.size() ? &all[number] : nullptr; }
  llvm::ArrayRef<Entity> entities() const { return all; }

private:
  bool writeFunction(const frontend::Function &function, ByteWriter &out, bool known);
  bool writeObject(uint64_t handle, llvm::StringRef typeName, ByteWriter &out, bool known,
                   std::shared_ptr<const frontend::Class> cls = nullptr);

  std::vector<Entity> all;
  llvm::DenseMap<const void *, uint32_t> functions;
  llvm::DenseMap<uint64_t, uint32_t> objects;
};

} // namespace nereid::runtime::cache
