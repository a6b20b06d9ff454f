// Targets of assignments, and names of expressions in errors about them.
#include "syntax/parser_impl.h"

namespace nereid::syntax {

/// The targets of a `for`, up to `in`.
const Expr *Parser::parseTargets() {
  uint32_t start = begin();
  Collect<Expr> elements(*this);
  bool tuple = false;
  do {
    if (elements.size() && !beginsExpression() && !at(K::Star))
      break;
    uint32_t starAt = begin();
    bool star = accept(K::Star);
    const Expr *next = parseBinary(0);
    if (!next)
      return nullptr;
    if (star) {
      auto *starred = make<Starred>();
      starred->value = next;
      if (!set(next, done(starred, starAt)))
        return nullptr;
    }
    elements.add(next);
  } while (at(K::Comma) && (tuple = true) && accept(K::Comma));
  const Expr *target = elements[0];
  if (tuple) {
    auto *node = make<Tuple>();
    node->elements = elements.list();
    target = done(node, start);
  }
  if (target)
    checkTarget(target, TargetUse::Assign);
  return target;
}

bool Parser::checkTarget(const Expr *target, TargetUse use, bool insideSequence) {
  auto elements = [&](NodeList<Expr> list) {
    for (const Expr *element : list)
      if (!checkTarget(element, use, true))
        return false;
    return true;
  };
  switch (target->kind) {
  case NodeKind::Name:
  case NodeKind::Attribute:
  case NodeKind::Subscript:
    return true;
  case NodeKind::Tuple:
    return elements(cast<Tuple>(target)->elements);
  case NodeKind::List:
    return elements(cast<List>(target)->elements);
  case NodeKind::Starred:
    if (use == TargetUse::Assign && insideSequence)
      return checkTarget(cast<Starred>(target)->value, use, false);
    error(diag::StarredNotAllowed, target->range);
    return false;
  default:
    if (use == TargetUse::Delete)
      error(diag::InvalidDelete, target->range, describeExpr(target));
    else
      error(diag::InvalidTarget, target->range, describeExpr(target));
    return false;
  }
}

/// "a call", "`None`": for messages about expressions at the wrong place.
std::string Parser::describeExpr(const Expr *expr) {
  switch (expr->kind) {
  case NodeKind::Name:
    return "the name `" + std::string(cast<Name>(expr)->id) + "`";
  case NodeKind::Constant:
    switch (cast<Constant>(expr)->constantKind) {
    case ConstantKind::None:
      return "`None`";
    case ConstantKind::True:
      return "`True`";
    case ConstantKind::False:
      return "`False`";
    case ConstantKind::Ellipsis:
      return "`...`";
    default:
      return "a literal";
    }
  case NodeKind::BinOp:
  case NodeKind::UnaryOp:
  case NodeKind::BoolOp:
    return "the result of an operator";
  case NodeKind::Compare:
    return "a comparison";
  case NodeKind::Call:
    return "a call";
  case NodeKind::IfExp:
    return "a conditional expression";
  case NodeKind::Lambda:
    return "a lambda";
  case NodeKind::Dict:
    return "a dict";
  case NodeKind::Set:
    return "a set";
  case NodeKind::List:
    return "a list";
  case NodeKind::Tuple:
    return "a tuple";
  case NodeKind::ListComp:
  case NodeKind::SetComp:
  case NodeKind::DictComp:
    return "a comprehension";
  case NodeKind::GeneratorExp:
    return "a generator expression";
  case NodeKind::JoinedStr:
    return "an f-string";
  case NodeKind::NamedExpr:
    return "a `:=` expression";
  case NodeKind::Starred:
    return "a starred expression";
  case NodeKind::Attribute:
    return "an attribute";
  case NodeKind::Subscript:
    return "a subscript";
  case NodeKind::UnsupportedExpr:
    return cast<UnsupportedExpr>(expr)->astName == "Await" ? "an `await` expression"
                                                           : "a `yield` expression";
  default:
    return "this expression";
  }
}

} // namespace nereid::syntax
