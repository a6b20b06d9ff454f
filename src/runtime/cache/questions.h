// The questions that a compilation asked about the world outside its own text, and how to repeat
// them.
//
// A compilation is a function of its key and of the answers it gets: what names mean, members of
// objects, results of calls; where its functions stand; files of bitcode. All of them go through
// `Dialogue`, which writes questions and answers as bytes (values.h). On disk, under the key,
// stands a list of questions; asked again in another process they give the same bytes exactly where
// the compilation would see the same. Their hash with the key is the next key, under which stands
// the kernel, or, where other answers have led to further questions, another list.
#pragma once

#include "runtime/c_host.h"
#include "runtime/cache/store.h"
#include "runtime/cache/values.h"

#include "llvm/ADT/StringMap.h"

#include <functional>
#include <string>
#include <vector>

namespace nereid::runtime::cache {

class Dialogue {
public:
  /// The file of something that the target uses ("libdevice").
  using ToolFn = std::function<std::string(llvm::StringRef)>;

  Dialogue(CHost *host, ToolFn tool) : inner(host), tool(std::move(tool)) {}

  /// False once something was asked that cannot be asked again.
  bool isRepeatable() const { return repeatable; }

  Entities entities;

  /// Asks the questions of a list; those asked before are not asked again. Returns the bytes that
  /// lead to the next key, or nothing when the list is none.
  std::optional<std::string> repeat(llvm::StringRef list);
  /// The list of what was asked but not by `repeat`; empty when there is nothing.
  std::string furtherList() const;

  /// Asked on behalf of the compilation.
  void noteLookup(const frontend::Function &function, llvm::StringRef name,
                  const frontend::HostResult<frontend::Value> &answer);
  void noteAttribute(const frontend::HostObject &object, llvm::StringRef name,
                     const frontend::HostResult<frontend::Value> &answer);
  void noteItem(const frontend::HostObject &object, const frontend::Value &index,
                const frontend::HostResult<frontend::Value> &answer);
  void noteMember(const frontend::Class &cls, llvm::StringRef name,
                  const frontend::HostResult<frontend::HostMember> &answer);
  void noteTruth(const frontend::HostObject &object, const frontend::HostResult<bool> &answer);
  void noteIdentical(const frontend::HostObject &a, const frontend::HostObject &b, bool answer);
  /// Before the call, whose result `noteResult` takes where it is part of the answer.
  bool noteCall(const frontend::HostObject &callee, llvm::ArrayRef<frontend::Value> args,
                llvm::ArrayRef<std::pair<std::string, frontend::Value>> keywords,
                std::string &question);
  void noteResult(std::string question, const frontend::HostResult<frontend::Value> &answer);
  /// The compiled code names the places of its functions.
  void notePlaces();
  void noteFile(llvm::StringRef path);
  void noteTool(llvm::StringRef name);

private:
  struct Asked {
    std::string question, answer;
    bool listed = false; ///< stands in a list that was repeated
  };

  void note(std::string question, std::string answer);
  std::string written(const frontend::HostResult<frontend::Value> &answer);
  bool describe(const frontend::HostObject &object);
  bool describeAll(const frontend::Value &value);
  std::string ask(llvm::StringRef question);
  std::string placeOf(uint32_t function) const;

  CHost *inner;
  ToolFn tool;
  bool repeatable = true;
  std::vector<Asked> asked;
  llvm::StringMap<size_t> index;
};

} // namespace nereid::runtime::cache
