/* json.c: JSON as rules, with lone surrogates left out, which no parser of RFC 8259 can turn into
 * text. */
#include "core/grammar/notation.h"

#include <stdio.h>
#include <string.h>

static const char rules[] =
    "root ::= object\n"
    "value ::= object | array | string | number | \"true\" | \"false\" | \"null\"\n"
    "object ::= \"{\" ws ( member ( \",\" ws member )* )? \"}\"\n"
    "member ::= string ws \":\" ws value ws\n"
    "array ::= \"[\" ws ( value ws ( \",\" ws value ws )* )? \"]\"\n"
    "string ::= \"\\\"\" rest\n"
    "rest ::= \"\\\"\" | char rest\n"
    "char ::= [ !#-\\x5B\\x5D-\\x7F] | wide | \"\\\\\" ( [\"\\\\/bfnrt] | \"u\" unit )\n"
    "unit ::= [0-9a-cA-CefEF] hex hex hex | [dD] [0-7] hex hex |\n"
    "         [dD] [89abAB] hex hex \"\\\\u\" [dD] [c-fC-F] hex hex\n"
    "wide ::= [\\u0080-\\U0010FFFF]\n"
    "hex ::= [0-9a-fA-F]\n"
    "number ::= \"-\"? ( \"0\" | [1-9] [0-9]* ) ( \".\" [0-9]+ )? ( [eE] [-+]? [0-9]+ )?\n"
    "ws ::= ";

static const char space[] = "\" \"? | ( \"\\r\"? \"\\n\" ){1,2} [ \\t]{0,20}";

int notation_json(struct net *n, int compact, uint32_t *root, struct err *e)
{
    char text[sizeof rules + sizeof space + 8];
    int bytes = snprintf(text, sizeof text, "%s%s\n", rules, compact ? "\"\"" : space);
    return notation_gbnf(n, text, (size_t)bytes, root, e);
}
