#include "runtime/c_host.h"

#include "frontend/class.h"
#include "frontend/function.h"
#include "runtime/c_api.h"
#include "runtime/cache/questions.h"
#include "runtime/specialise.h"

#include <cstdlib>

using namespace nereid;
using namespace nereid::runtime;
using frontend::HostResult;
using frontend::Value;

namespace {

/// What the running callback said with nrd_host_error; callbacks stay on the compiling thread.
thread_local frontend::HostError pendingError;

nrd_value borrowed(const Value &value) {
  return nrd_value{value, {}, {}, {}};
}

} // namespace

void nrd_host_error(const char *message, uint64_t exception) try {
  pendingError = {message ? message : "", exception};
}
NRD_CATCH

frontend::HostError CHost::takeError() {
  frontend::HostError error = std::move(pendingError);
  pendingError = {};
  if (error.message.empty())
    error.message = "the host failed";
  if (error.exception)
    lastException = error.exception;
  return error;
}

HostResult<Value> CHost::take(int status, nrd_value *out) {
  std::unique_ptr<nrd_value> owner(out);
  lastName.clear();
  if (status < 0)
    return {std::nullopt, takeError()};
  if (status == 0 || !out)
    return {std::nullopt, {}};
  lastName = out->languageName;
  if (out->isNameAlone && !isProbing) {
    owner.reset(nrd_value_builtin(lastName.c_str()));
    out = owner.get();
    if (!out)
      return {std::nullopt, {"the language has no `" + lastName + "`", 0}};
  }
  kept.insert(kept.end(), out->owners.begin(), out->owners.end());
  return {std::move(out->value), {}};
}

HostResult<Value> CHost::lookup(const frontend::Function &function, llvm::StringRef name) {
  nrd_value *out = nullptr;
  int status = callbacks.lookup(callbacks.self, function.hostData(), name.str().c_str(), &out);
  HostResult<Value> answer = take(status, out);
  if (notes)
    notes->noteLookup(function, name, answer);
  return answer;
}

HostResult<Value> CHost::getAttribute(const frontend::HostObject &object, llvm::StringRef name) {
  nrd_value *out = nullptr;
  int status = callbacks.get_attribute(callbacks.self, object.handle, name.str().c_str(), &out);
  HostResult<Value> answer = take(status, out);
  if (notes)
    notes->noteAttribute(object, name, answer);
  return answer;
}

HostResult<Value> CHost::getItem(const frontend::HostObject &object, const Value &index) {
  nrd_value *out = nullptr;
  nrd_value at = borrowed(index);
  int status = callbacks.get_item(callbacks.self, object.handle, &at, &out);
  HostResult<Value> answer = take(status, out);
  if (notes)
    notes->noteItem(object, index, answer);
  return answer;
}

HostResult<Value> CHost::callWith(const frontend::HostObject &callee, llvm::ArrayRef<Value> args,
                                  llvm::ArrayRef<std::pair<std::string, Value>> keywords,
                                  nrd_semantic *semantic) {
  std::vector<nrd_value> values;
  values.reserve(args.size() + keywords.size());
  std::vector<const nrd_value *> positional, named;
  std::vector<const char *> names;
  for (const Value &arg : args)
    positional.push_back(&values.emplace_back(borrowed(arg)));
  for (const auto &[name, value] : keywords) {
    names.push_back(name.c_str());
    named.push_back(&values.emplace_back(borrowed(value)));
  }
  nrd_value *out = nullptr;
  int status = callbacks.call(callbacks.self, callee.handle, positional.data(), positional.size(),
                              names.data(), named.data(), named.size(), semantic, &out);
  return take(status, out);
}

HostResult<Value> CHost::call(const frontend::HostObject &callee, llvm::ArrayRef<Value> args,
                              llvm::ArrayRef<std::pair<std::string, Value>> keywords,
                              frontend::Semantic &semantic) {
  nrd_semantic lent{semantic};
  std::string question;
  bool resultCounts = notes && notes->noteCall(callee, args, keywords, question);
  HostResult<Value> answer = callWith(callee, args, keywords, &lent);
  if (resultCounts)
    notes->noteResult(std::move(question), answer);
  return answer;
}

HostResult<Value> CHost::repeatCall(const frontend::HostObject &callee, llvm::ArrayRef<Value> args,
                                    llvm::ArrayRef<std::pair<std::string, Value>> keywords) {
  return callWith(callee, args, keywords, nullptr);
}

int CHost::describe(const frontend::HostObject &object, std::string &text) {
  if (!callbacks.describe)
    return NRD_DESCRIBED_NOT;
  char *given = nullptr;
  int how = callbacks.describe(callbacks.self, object.handle, &given);
  if (given)
    text = given;
  std::free(given);
  return how;
}

void CHost::beginProbe() {
  isProbing = true;
  if (callbacks.probe)
    callbacks.probe(callbacks.self, NRD_PROBE_BEGIN);
}

void CHost::endProbe(bool accepted) {
  if (callbacks.probe)
    callbacks.probe(callbacks.self, accepted ? NRD_PROBE_ACCEPT : NRD_PROBE_REJECT);
  isProbing = false;
  lastException = 0; // no cause of what a compilation may say now
}

HostResult<frontend::HostMember> CHost::getMember(const frontend::Class &cls,
                                                  llvm::StringRef name) {
  HostResult<frontend::HostMember> answer;
  if (callbacks.get_member) {
    nrd_value *out = nullptr;
    int kind = NRD_MEMBER_PLAIN;
    int status =
        callbacks.get_member(callbacks.self, cls.handle(), name.str().c_str(), &kind, &out);
    HostResult<Value> member = take(status, out);
    auto how = kind == NRD_MEMBER_METHOD     ? frontend::MemberKind::Method
               : kind == NRD_MEMBER_PROPERTY ? frontend::MemberKind::Property
                                             : frontend::MemberKind::Plain;
    if (member.value)
      answer.value = frontend::HostMember{std::move(*member.value), how};
    else
      answer.error = std::move(member.error);
  }
  if (notes)
    notes->noteMember(cls, name, answer);
  return answer;
}

HostResult<bool> CHost::truth(const frontend::HostObject &object) {
  int result = callbacks.truth(callbacks.self, object.handle);
  HostResult<bool> answer;
  if (result < 0)
    answer.error = takeError();
  else
    answer.value = result != 0;
  if (notes)
    notes->noteTruth(object, answer);
  return answer;
}

bool CHost::identical(const frontend::HostObject &a, const frontend::HostObject &b) {
  bool answer = callbacks.identical ? callbacks.identical(callbacks.self, a.handle, b.handle) != 0
                                    : a.handle == b.handle;
  if (notes)
    notes->noteIdentical(a, b, answer);
  return answer;
}

void CHost::print(llvm::StringRef text) {
  if (callbacks.print)
    callbacks.print(callbacks.self, text.str().c_str());
}
