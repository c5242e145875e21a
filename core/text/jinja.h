/* jinja.h: interpreter of the Jinja2 subset that chat templates use. It behaves as Python's
 * jinja2 3.1 with the settings of transformers' apply_chat_template: trim_blocks, lstrip_blocks, no
 * autoescape, an immutable sandbox, loop controls, generation blocks, a plain tojson,
 * raise_exception and strftime_now. Owns: the language. Must not know: messages, models, tokens.
 *
 * Not supported, and refused with name and line: extends, block, include, import, autoescape;
 * lipsum, cycler, joiner; the filters filesizeformat, pprint, random, striptags, urlencode, urlize,
 * wordwrap, xmlattr; integers beyond 64 bits; names with letters outside ASCII. Values that Python
 * prints as an address (methods, macros, generators) cannot be printed.
 *
 * Templates are untrusted input: nesting, steps, memory and output of a render are bounded;
 * exceeding a bound is an error. */
#ifndef CORE_JINJA_H
#define CORE_JINJA_H

#include "core/base/err.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

enum {
    JINJA_MAX_SOURCE = 16 << 20,  /* bytes of a template */
    JINJA_MAX_OUTPUT = 64 << 20,  /* bytes of a rendered text */
    JINJA_MAX_MEMORY = 256 << 20, /* bytes of values that a render allocates */
    JINJA_MAX_STEPS =
        20 << 20, /* expressions and statements evaluated; longer strings count more */
    JINJA_MAX_PARSE_DEPTH = 200, /* nested brackets and blocks */
    JINJA_MAX_DEPTH = 1000,      /* nested evaluations */
};

struct jinja;

/* Parses SOURCE [n bytes, UTF-8]. An open template is constant: threads may render it concurrently.
 */
int jinja_open(struct jinja **t, const char *source, size_t n, struct err *e);
void jinja_close(struct jinja *t);

/* Renders with VARIABLES (an object: name -> value). NOW, for strftime_now, is local time in
 * seconds since 1970-01-01 00:00 local time. *text is malloc'd, NUL-terminated, *bytes long, valid
 * UTF-8. A call of raise_exception, and all that raises an exception in Python, is an error "line
 * N: <text>". */
int jinja_render(const struct jinja *t, const json_t *variables, int64_t now, char **text,
                 size_t *bytes, struct err *e);

/* 1 if a loop of the template iterates over NAME: `for x in m.NAME`, `for x in m['NAME']`, or over
 * a variable that was set from it. -1: out of memory. */
int jinja_loops_over(const struct jinja *t, const char *name);
/* 1 if an expression of the template has a variable called NAME. */
int jinja_reads(const struct jinja *t, const char *name);

#endif
