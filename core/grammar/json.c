/* json.c: JSON as rules, with lone surrogates left out, which no parser of RFC 8259 can turn into
 * text. */
#include "core/grammar/grammar.h"
#include "core/grammar/notation.h"

#include <stdio.h>
#include <string.h>

static const char rules[] =
    "root ::= object\n"
    "value ::= object | array | string | number | \"true\" | \"false\" | \"null\"\n"
    "object ::= \"{\" ws ( member ( comma member )* ws )? \"}\"\n"
    "member ::= string colon value\n"
    "array ::= \"[\" ws ( value ( comma value )* ws )? \"]\"\n"
    "string ::= \"\\\"\" rest\n"
    "rest ::= \"\\\"\" | char rest\n"
    "char ::= [ !#-\\x5B\\x5D-\\x7F] | wide | \"\\\\\" ( [\"\\\\/bfnrt] | \"u\" unit )\n"
    "unit ::= [0-9a-cA-CefEF] hex hex hex | [dD] [0-7] hex hex |\n"
    "         [dD] [89abAB] hex hex \"\\\\u\" [dD] [c-fC-F] hex hex\n"
    "wide ::= [\\u0080-\\U0010FFFF]\n"
    "hex ::= [0-9a-fA-F]\n"
    "number ::= \"-\"? ( \"0\" | [1-9] [0-9]* ) ( \".\" [0-9]+ )? ( [eE] [-+]? [0-9]+ )?\n"
    "comma ::= \",\" ";

/* The rest: white space behind a comma, behind a colon, within brackets. */
static const char *const spaces[] = {
    [JSON_SPACE_ONE] = "\" \"\ncolon ::= \": \"\nws ::= \"\"\n",
    [JSON_SPACE_NONE] = "\ncolon ::= \":\"\nws ::= \"\"\n",
    [JSON_SPACE_ANY] = "ws\ncolon ::= \":\" \" \"?\nws ::= \" \"? | \"\\r\"? \"\\n\" ( \" \"{0,20} "
                       "| \"\\t\"{0,10} )\n",
};

int notation_json(struct net *n, enum json_space space, uint32_t *root, struct err *e)
{
    char text[sizeof rules + 128];
    int bytes = snprintf(text, sizeof text, "%s%s", rules, spaces[space]);
    CHECK((size_t)bytes < sizeof text);
    return notation_gbnf(n, text, (size_t)bytes, NULL, root, e);
}
