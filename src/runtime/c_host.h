// The host behind the C ABI's callbacks: turns frontend::Host into nrd_host calls.
#pragma once

#include "frontend/host.h"
#include "nereid/nereid.h"

#include <memory>
#include <vector>

struct nrd_semantic {
  nereid::frontend::Semantic &semantic;
};

namespace nereid::runtime {

namespace cache {
class Dialogue;
}

class CHost final : public frontend::Host {
public:
  explicit CHost(const nrd_host &callbacks) : callbacks(callbacks) {}

  frontend::HostResult<frontend::Value> lookup(const frontend::Function &function,
                                               llvm::StringRef name) override;
  frontend::HostResult<frontend::Value> getAttribute(const frontend::HostObject &object,
                                                     llvm::StringRef name) override;
  frontend::HostResult<frontend::Value> getItem(const frontend::HostObject &object,
                                                const frontend::Value &index) override;
  frontend::HostResult<frontend::Value>
  call(const frontend::HostObject &callee, llvm::ArrayRef<frontend::Value> args,
       llvm::ArrayRef<std::pair<std::string, frontend::Value>> keywords,
       frontend::Semantic &semantic) override;
  frontend::HostResult<frontend::HostMember> getMember(const frontend::Class &cls,
                                                       llvm::StringRef name) override;
  frontend::HostResult<bool> truth(const frontend::HostObject &object) override;
  bool identical(const frontend::HostObject &a, const frontend::HostObject &b) override;
  void print(llvm::StringRef text) override;

  /// Calls a foreign object outside of a compilation: one that does not enter the builtin table.
  frontend::HostResult<frontend::Value>
  repeatCall(const frontend::HostObject &callee, llvm::ArrayRef<frontend::Value> args,
             llvm::ArrayRef<std::pair<std::string, frontend::Value>> keywords);

  /// A text that identifies the object, by which a compilation is compared with an earlier one: see
  /// nrd_host.describe.
  int describe(const frontend::HostObject &object, std::string &text);

  /// The questions that follow only look whether a kernel on disk is the right one; at the end
  /// `accepted` says whether it was.
  void beginProbe();
  void endProbe(bool accepted);

  /// Where questions and answers are noted from now on; null for nowhere.
  void noteIn(cache::Dialogue *dialogue) { notes = dialogue; }

  /// Of the last answer that was a value: its name, when it is one of the language.
  llvm::StringRef languageName() const { return lastName; }

  /// The last exception that a callback reported, or 0.
  uint64_t exception() const { return lastException; }
  /// Owners of the functions that the host has returned.
  const std::vector<std::shared_ptr<const void>> &owners() const { return kept; }

private:
  frontend::HostResult<frontend::Value>
  callWith(const frontend::HostObject &callee, llvm::ArrayRef<frontend::Value> args,
           llvm::ArrayRef<std::pair<std::string, frontend::Value>> keywords,
           nrd_semantic *semantic);
  frontend::HostResult<frontend::Value> take(int status, nrd_value *out);
  frontend::HostError takeError();

  nrd_host callbacks;
  cache::Dialogue *notes = nullptr;
  uint64_t lastException = 0;
  std::string lastName;
  bool isProbing = false;
  std::vector<std::shared_ptr<const void>> kept;
};

} // namespace nereid::runtime
