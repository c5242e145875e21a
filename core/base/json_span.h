/* json_span.h: where a value stands in the text of a JSON document, for those who need it as it is
 * spelled. The text is JSON: jansson has read it. */
#ifndef CORE_JSON_SPAN_H
#define CORE_JSON_SPAN_H

/* The first byte of [p, end) that is no white space, or END. */
const char *json_span_space(const char *p, const char *end);
/* The byte behind the value that begins at P; END where it does not end. The text need not be JSON.
 */
const char *json_span_value(const char *p, const char *end);
/* Narrows [*p, *end) from an object to its member; the last one of several counts, as for jansson.
 * 0: there is none. */
int json_span_member(const char **p, const char **end, const char *name);

#endif
