/* json.h: strings of a JSON line. */
#ifndef RUEDA_CLI_JSON_H
#define RUEDA_CLI_JSON_H

/* Prints a quoted, escaped string to stdout; null for NULL. */
void json_print_string(const char *text);

#endif
