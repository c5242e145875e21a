/* jinja.h: the part of Jinja2 that chat templates are written in: text with expressions -> text.
 * Behaves as Python's jinja2 3.1 with the settings of transformers' apply_chat_template:
 * trim_blocks, lstrip_blocks, no autoescape, an immutable sandbox, loop controls, generation
 * blocks, a plain tojson, raise_exception and strftime_now. Owns: the language. Must not know:
 * messages, models, tokens.
 *
 * Not there, and refused by name and line when met: extends, block, include, import, autoescape;
 * lipsum, cycler, joiner; the filters filesizeformat, pprint, random, striptags, urlencode, urlize,
 * wordwrap, xmlattr; integers beyond 64 bits; names with letters outside ASCII. What Python prints
 * as an address in memory (methods, macros, generators) cannot be printed.
 *
 * Templates come with checkpoints from anywhere: nesting, steps, memory and output of a render are
 * bounded, and a bound that is reached is an error. */
#ifndef CORE_JINJA_H
#define CORE_JINJA_H

#include "core/base/err.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

enum {
    JINJA_MAX_SOURCE = 16 << 20,  /* bytes of a template */
    JINJA_MAX_OUTPUT = 64 << 20,  /* bytes of a rendered text */
    JINJA_MAX_MEMORY = 256 << 20, /* bytes of values that a render makes */
    JINJA_MAX_STEPS =
        20 << 20, /* expressions and statements evaluated, longer strings counting more */
    JINJA_MAX_PARSE_DEPTH = 200, /* brackets and blocks within each other */
    JINJA_MAX_DEPTH = 1000,      /* evaluations within each other */
};

struct jinja;

/* Parses SOURCE [n bytes, UTF-8]. An open template is constant: renders may run in several threads
 * at a time. */
int jinja_open(struct jinja **t, const char *source, size_t n, struct err *e);
void jinja_close(struct jinja *t);

/* Renders with VARIABLES (an object: name -> value). NOW is what strftime_now shows: a wall clock
 * as seconds since 1970-01-01 00:00 of that clock. *text is malloc'd, NUL-terminated, *bytes long,
 * valid UTF-8. What the template hands to raise_exception is an error "line N: <its text>", as is
 * everything that Python would raise. */
int jinja_render(const struct jinja *t, const json_t *variables, int64_t now, char **text,
                 size_t *bytes, struct err *e);

/* 1 when a loop of the template runs over something called NAME: `for x in m.NAME`, `for x in
 * m['NAME']`, or over a variable that was set from it. -1: out of memory. */
int jinja_loops_over(const struct jinja *t, const char *name);
/* 1 when an expression of the template has a variable called NAME: it may change what is rendered.
 */
int jinja_reads(const struct jinja *t, const char *name);

#endif
