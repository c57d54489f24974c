/* banned: functions that are compile errors here, as each has a safe one beside it.
 * Included on the command line of every compilation. */
#ifndef LAZARET_BASE_BANNED_H
#define LAZARET_BASE_BANNED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LAZARET_BANNED(function) sorry_##function##_is_banned

#undef strcpy
#define strcpy(x, y) LAZARET_BANNED(strcpy)
#undef strcat
#define strcat(x, y) LAZARET_BANNED(strcat)
#undef strncpy
#define strncpy(x, y, n) LAZARET_BANNED(strncpy)
#undef strncat
#define strncat(x, y, n) LAZARET_BANNED(strncat)
#undef sprintf
#define sprintf(...) LAZARET_BANNED(sprintf)
#undef vsprintf
#define vsprintf(...) LAZARET_BANNED(vsprintf)
#undef gets
#define gets(x) LAZARET_BANNED(gets)
#undef strtok
#define strtok(x, y) LAZARET_BANNED(strtok)
#undef gmtime
#define gmtime(t) LAZARET_BANNED(gmtime)
#undef localtime
#define localtime(t) LAZARET_BANNED(localtime)
#undef ctime
#define ctime(t) LAZARET_BANNED(ctime)
#undef rand
#define rand() LAZARET_BANNED(rand)
#undef atoi
#define atoi(x) LAZARET_BANNED(atoi)

#endif
