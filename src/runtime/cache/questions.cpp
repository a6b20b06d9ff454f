#include "runtime/cache/questions.h"

#include "frontend/class.h"

#include "llvm/Support/BLAKE3.h"
#include "llvm/Support/MemoryBuffer.h"

#include <sys/stat.h>

using namespace nereid;
using namespace nereid::runtime;
using namespace nereid::runtime::cache;
using frontend::HostMember;
using frontend::HostObject;
using frontend::HostResult;
using frontend::Value;

namespace {

enum class Ask : uint8_t {
  Lookup,
  Attribute,
  Item,
  Member,
  Truth,
  Identical,
  Description,
  Call,
  Place,
  File,
  Tool,
  Last = Tool
};

// First byte of an answer.
constexpr char answered = 'a', named = 'l', absent = 'n', failed = 'e', unanswerable = '?';

/// No list that we wrote is longer.
constexpr size_t longestList = 100000;

std::string question(Ask kind, uint32_t subject, llvm::StringRef name = {}) {
  ByteWriter out;
  out.number(kind);
  out.number(subject);
  out.text(name);
  return out.take();
}

/// Identifies the content of a file; what is known of one stays known while its size and time do.
std::string contentIdentity(const std::string &path) {
  struct Known {
    std::string path, identity;
    off_t size;
    timespec time;
  };
  thread_local std::vector<Known> known;
  struct stat status;
  if (::stat(path.c_str(), &status) != 0)
    return "missing";
  for (const Known &file : known)
    if (file.path == path && file.size == status.st_size &&
        file.time.tv_sec == status.st_mtim.tv_sec && file.time.tv_nsec == status.st_mtim.tv_nsec)
      return file.identity;
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
  if (!buffer)
    return "missing";
  std::string identity = Key::of((*buffer)->getBuffer()).hex();
  known.push_back({path, identity, status.st_size, status.st_mtim});
  return identity;
}

} // namespace

//===--- noting
//------------------------------------------------------------------------------===//

void Dialogue::note(std::string question, std::string answer) {
  auto [found, isNew] = index.try_emplace(question, asked.size());
  if (isNew)
    asked.push_back({std::move(question), std::move(answer)});
  else if (asked[found->second].answer != answer)
    repeatable = false; // it changed while it was asked
}

std::string Dialogue::written(const HostResult<Value> &answer) {
  if (!answer.value)
    return std::string(1, answer.error.message.empty() ? absent : failed);
  // The meaning of a name of the language depends only on the compiler, which is part of the key.
  // (A value that a compilation makes without asking has no name.)
  if (!inner->languageName().empty())
    return named + inner->languageName().str();
  ByteWriter out;
  out.number(answered);
  if (!entities.write(*answer.value, out))
    repeatable = false;
  return out.take();
}

void Dialogue::noteLookup(const frontend::Function &function, llvm::StringRef name,
                          const HostResult<Value> &answer) {
  if (std::optional<uint32_t> subject = entities.numberOf(function))
    note(question(Ask::Lookup, *subject, name), written(answer));
  else
    repeatable = false; // a function that Python code handed in
}

void Dialogue::noteAttribute(const HostObject &object, llvm::StringRef name,
                             const HostResult<Value> &answer) {
  if (std::optional<uint32_t> subject = entities.numberOf(object.handle))
    note(question(Ask::Attribute, *subject, name), written(answer));
  else
    repeatable = false;
}

void Dialogue::noteItem(const HostObject &object, const Value &index,
                        const HostResult<Value> &answer) {
  std::optional<uint32_t> subject = entities.numberOf(object.handle);
  ByteWriter value;
  if (subject && entities.write(index, value, /*known=*/true))
    note(question(Ask::Item, *subject, value.bytes()), written(answer));
  else
    repeatable = false;
}

void Dialogue::noteMember(const frontend::Class &cls, llvm::StringRef name,
                          const HostResult<HostMember> &answer) {
  std::optional<uint32_t> subject = entities.numberOf(cls.handle());
  if (!subject) {
    repeatable = false;
    return;
  }
  HostResult<Value> member;
  member.error = answer.error;
  if (answer.value)
    member.value = answer.value->value;
  std::string text = written(member);
  if (answer.value)
    text += char(answer.value->kind);
  note(question(Ask::Member, *subject, name), std::move(text));
}

void Dialogue::noteTruth(const HostObject &object, const HostResult<bool> &answer) {
  if (std::optional<uint32_t> subject = entities.numberOf(object.handle))
    note(question(Ask::Truth, *subject), std::string(1, !answer.value   ? failed
                                                        : *answer.value ? '1'
                                                                        : '0'));
  else
    repeatable = false;
}

void Dialogue::noteIdentical(const HostObject &a, const HostObject &b, bool answer) {
  std::optional<uint32_t> left = entities.numberOf(a.handle), right = entities.numberOf(b.handle);
  if (left && right)
    note(question(Ask::Identical, *left, std::to_string(*right)), answer ? "1" : "0");
  else
    repeatable = false;
}

/// What Python code does with an object that it is given shows only in the object's description.
bool Dialogue::describe(const HostObject &object) {
  std::optional<uint32_t> subject = entities.numberOf(object.handle);
  std::string text;
  if (!subject || inner->describe(object, text) != NRD_DESCRIBED_BY_TEXT)
    return false;
  note(question(Ask::Description, *subject), answered + text);
  return true;
}

bool Dialogue::describeAll(const Value &value) {
  if (auto *object = value.getIf<HostObject>())
    return describe(*object) && (!object->self || describeAll(*object->self));
  // Python may look at the text of a function and at what it captured.
  if (value.is<frontend::FunctionValue>())
    return false;
  if (auto *tuple = value.getIf<frontend::Tuple>(); tuple && tuple->hostClass)
    if (!describe({tuple->hostClass, "type"}))
      return false;
  if (auto *aggregate = value.getIf<frontend::Aggregate>(); aggregate && aggregate->cls->handle())
    if (!describe({aggregate->cls->handle(), "type"}))
      return false;
  const std::vector<Value> *items = frontend::itemsOf(value);
  return !items || llvm::all_of(*items, [&](const Value &item) { return describeAll(item); });
}

bool Dialogue::noteCall(const HostObject &callee, llvm::ArrayRef<Value> args,
                        llvm::ArrayRef<std::pair<std::string, Value>> keywords, std::string &call) {
  std::optional<uint32_t> subject = entities.numberOf(callee.handle);
  std::string text;
  int how = subject ? inner->describe(callee, text) : NRD_DESCRIBED_NOT;
  if (how == NRD_DESCRIBED_BY_TEXT) {
    note(question(Ask::Description, *subject), answered + text);
    for (const Value &arg : args)
      repeatable &= describeAll(arg);
    for (const auto &[name, value] : keywords)
      repeatable &= describeAll(value);
    return false;
  }
  ByteWriter out;
  out.number(Ask::Call);
  out.number(subject.value_or(0));
  bool done = how == NRD_DESCRIBED_BY_CALL;
  out.list(args, [&](const Value &arg) { done = done && entities.write(arg, out, true); });
  out.list(keywords, [&](const auto &keyword) {
    out.text(keyword.first);
    done = done && entities.write(keyword.second, out, true);
  });
  repeatable &= done;
  call = out.take();
  return done;
}

void Dialogue::noteResult(std::string question, const HostResult<Value> &answer) {
  note(std::move(question), written(answer));
}

void Dialogue::notePlaces() {
  for (uint32_t i = 0; i < entities.entities().size(); ++i)
    if (entities.find(i)->function)
      note(question(Ask::Place, i), placeOf(i));
}

void Dialogue::noteFile(llvm::StringRef path) {
  note(question(Ask::File, 0, path), contentIdentity(path.str()));
}

void Dialogue::noteTool(llvm::StringRef name) {
  note(question(Ask::Tool, 0, name), contentIdentity(tool(name)));
}

std::string Dialogue::placeOf(uint32_t function) const {
  const SourceFile &source = entities.find(function)->function->module().source();
  return std::string(source.name()) + ":" + std::to_string(source.origin().firstLine) + ":" +
         std::to_string(source.origin().columnShift);
}

//===--- asking again
//------------------------------------------------------------------------===//

std::string Dialogue::ask(llvm::StringRef text) {
  static const std::string none(1, unanswerable);
  ByteReader in(text);
  Ask kind = in.oneOf<Ask>(Ask::Last);
  auto subject = in.number<uint32_t>();
  if (!in.ok())
    return none;
  if (kind == Ask::File || kind == Ask::Tool) {
    std::string name(in.text());
    return !in.done() ? none : contentIdentity(kind == Ask::File ? name : tool(name));
  }
  const Entities::Entity *entity = entities.find(subject);
  if (!entity)
    return none;
  if (kind == Ask::Place)
    return entity->function ? placeOf(subject) : none;
  if (!inner)
    return none;
  if (kind == Ask::Lookup) {
    std::string name(in.text());
    return in.done() && entity->function ? written(inner->lookup(*entity->function, name)) : none;
  }
  if (entity->function)
    return none;
  HostObject object{entity->handle, entity->typeName};
  if (kind == Ask::Call) {
    std::vector<Value> args;
    std::vector<std::pair<std::string, Value>> keywords;
    auto take = [&]() -> Value {
      auto value = entities.read(in);
      if (!value)
        in.fail();
      return value ? std::move(*value) : Value();
    };
    in.list([&] { args.push_back(take()); });
    in.list([&] {
      std::string name(in.text());
      keywords.emplace_back(std::move(name), take());
    });
    std::string description;
    if (!in.done() || inner->describe(object, description) != NRD_DESCRIBED_BY_CALL)
      return none;
    return written(inner->repeatCall(object, args, keywords));
  }
  std::string name(in.text());
  if (!in.done())
    return none;
  switch (kind) {
  case Ask::Attribute:
    return written(inner->getAttribute(object, name));
  case Ask::Item: {
    ByteReader value(name);
    auto at = entities.read(value);
    return at && value.done() ? written(inner->getItem(object, *at)) : none;
  }
  case Ask::Member: {
    frontend::Class cls(object.handle, "", {});
    HostResult<HostMember> answer = inner->getMember(cls, name);
    HostResult<Value> member;
    member.error = answer.error;
    if (answer.value)
      member.value = answer.value->value;
    std::string result = written(member);
    if (answer.value)
      result += char(answer.value->kind);
    return result;
  }
  case Ask::Truth: {
    HostResult<bool> answer = inner->truth(object);
    return std::string(1, !answer.value ? failed : *answer.value ? '1' : '0');
  }
  case Ask::Identical: {
    uint32_t other = 0;
    const Entities::Entity *right =
        llvm::StringRef(name).getAsInteger(10, other) ? nullptr : entities.find(other);
    if (!right || right->function)
      return none;
    return inner->identical(object, {right->handle, right->typeName}) ? "1" : "0";
  }
  case Ask::Description: {
    std::string description;
    return inner->describe(object, description) == NRD_DESCRIBED_BY_TEXT ? answered + description
                                                                         : none;
  }
  default:
    return none;
  }
}

std::optional<std::string> Dialogue::repeat(llvm::StringRef list) {
  ByteReader in(list);
  size_t count = in.count();
  if (!in.ok() || count == 0 || count > longestList)
    return std::nullopt;
  ByteWriter path;
  for (size_t i = 0; i < count; ++i) {
    std::string text(in.text());
    if (!in.ok())
      return std::nullopt;
    auto [found, isNew] = index.try_emplace(text, asked.size());
    if (isNew) {
      std::string answer = ask(text);
      asked.push_back({text, std::move(answer)});
    }
    Asked &entry = asked[found->second];
    entry.listed = true;
    path.text(entry.question);
    path.text(entry.answer);
  }
  return in.done() ? std::optional(path.take()) : std::nullopt;
}

std::string Dialogue::furtherList() const {
  ByteWriter list;
  list.count(llvm::count_if(asked, [](const Asked &entry) { return !entry.listed; }));
  for (const Asked &entry : asked)
    if (!entry.listed)
      list.text(entry.question);
  return list.take();
}
