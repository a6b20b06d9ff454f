// LLVM's code generator without the passes that cost more than they give.
#pragma once
#include "support/settings.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/Pass.h"

namespace nereid::targets {

/// Leaves out the passes of these names (as LLVM prints them) and those that the setting
/// NEREID_LLVM_WITHOUT names.
class TrimmedPassManager : public llvm::legacy::PassManager {
public:
  explicit TrimmedPassManager(llvm::ArrayRef<llvm::StringLiteral> dropped) : dropped(dropped) {
    llvm::SplitString(Settings::current().llvmWithout, unwanted, ",");
  }
  void add(llvm::Pass *pass) override {
    llvm::StringRef name = pass->getPassName();
    if (llvm::is_contained(dropped, name) || llvm::is_contained(unwanted, name))
      delete pass;
    else
      llvm::legacy::PassManager::add(pass);
  }

private:
  llvm::ArrayRef<llvm::StringLiteral> dropped;
  llvm::SmallVector<llvm::StringRef> unwanted;
};

} // namespace nereid::targets
