"""Names of a made-up market: companies, sellers and products. None is meant to be a real one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Names = NDArray[Any]  # (n,) of text

MAX_CLIENTS = 200_000
CLIENTS_PER_SELLER = 70


class Language(NamedTuple):
    """Family names are a beginning and an ending, which gives hundreds of each from a few."""

    beginnings: str
    endings: str
    first_names: str


class Country(NamedTuple):
    language: str
    weight: float  # how many clients are there, relative to the others
    legal_forms: tuple[str, ...]  # the usual one first


class Family(NamedTuple):
    """A product name is a line, a kind and a variant: "Granite Flash Array 48 TB"."""

    group: str  # related families are often bought together
    list_price: float  # the median
    every: int  # days from one purchase to the next
    variants: tuple[str, ...]  # from the cheapest to the dearest
    lines: str
    kinds: str


LANGUAGES = {
    "English": Language(
        "Alder Ash Barrow Bram Briar Calder Cray Dunmor Elder Elm Fallow Fern Garth Haver Hazel Hollin Kestrel Lark "
        "Marl Mossel Otter Pender Raven Rowan Sable Tarn Thistle Wether Whin Wren Yarrow",
        "brook bury combe croft dale den field ford gate ham holt hurst mere moor ridge shaw stead stoke thorpe ton "
        "ward wick wold worth",
        "Alice Amara Ben Chloe Daniel Emma George Grace Harry Jack James Kate Liam Maya Noah Olivia Priya Sam Zoe",
    ),
    "German": Language(
        "Ahren Bären Birken Buchen Dorn Eichen Falken Flach Grün Hasel Hirsch Kalten Kron Kühl Linden Löwen Mühl Nebel "
        "Ober Rehn Rosen Rüben Schön Silber Sommer Stein Tannen Weiden Wolfs",
        "acker au bach bauer berg brunn eck fels feld grund hagen hain hausen heim hof kamp mann rath reuth stätt tal "
        "wald",
        "Anja Bernd Claudia Dirk Eva Felix Greta Hannes Jörg Jürgen Katrin Lena Lukas Markus Nina Silke Thomas Ute",
    ),
    "French": Language(
        "Aigre Beau Belle Bois Chante Claire Fleur Fontaine Grand Haute Long Mire Mont Noire Pierre Roche Sauve Sept "
        "Val Verte Ville",
        "bois bourg champ combe court fort lac lieu mare mont neuve pin pré rive rivière roche selle val verne vigne",
        "Agnès Aurélie Benoît Camille Chloé Élodie François Hélène Hugo Julien Léa Luc Manon Nicolas Rémi Théo",
    ),
    "Nordic": Language(
        "Aske Berg Björn Dal Ek Elv Fjäll Furu Gran Hav Hjort Is Lind Löv Ny Rönn Sjö Skog Sol Sten Strand Sund Öster",
        "backa berg blad by dal fors gren gård hagen holm källa kvist lid lund mark näs rud ström sund vall vik",
        "Anders Astrid Björn Elin Erik Freja Göran Ida Ingrid Jonas Karin Lars Maja Nils Sofia Søren",
    ),
    "Dutch": Language(
        "Achter Berken Broek Dijk Eiken Heide Hoog Kamp Klaver Koren Laag Linde Meer Molen Noorder Oude Rieten Ruiter "
        "Schaap Veld Vinken Water Wilgen Zand Zilver Zonne",
        "beek berg boom bos brug burg dam donk haven hof horst hoven huis kerk laar meer mond oord rode rust stede "
        "veen voort waard wijk zicht",
        "Anouk Bram Daan Esmée Femke Joost Koen Lieke Maarten Noor Pieter René Sanne Sjoerd Tess Wouter",
    ),
    "Italian": Language(
        "Acqua Alba Bella Campo Casa Castel Fior Fonte Gran Mar Monte Nova Olmo Pietra Ponte Porto Riva Rocca Serra "
        "Sol Terra Torre Val Villa",
        "bella bianca buona chiara dolce dora fiorita forte franca grande luce mara marina nera nova pura reale rossa "
        "sana secca serena stella verde viva",
        "Alessia Bruno Carla Davide Elena Fabio Giulia Ilaria Lorenzo Marco Niccolò Paola Sara Tommaso",
    ),
    "Spanish": Language(
        "Agua Alta Arro Bello Campo Casa Cerro Fuente Gua Herra Lago Mira Monte Oliva Peña Piedra Rio Robla Salva "
        "Sierra Torre Valle Vega Villa",
        "blanca bravo cañas cedo clara dera dorada flores franco hermosa honda lobos longa luna mayor negra nueva "
        "pinar rana real rosa seca verde",
        "Álvaro Ana Beatriz Carlos Diego Inés Javier José Lucía Marta Nuria Pablo Raúl Sofía Tomás",
    ),
    "Japanese": Language(
        "Aoba Akino Fuyu Haru Hayase Hina Hoshi Kaze Kiri Kumo Mina Mizu Nagi Natsu Shio Sora Suzu Take Tsuki Yuki",
        "hara kado kawa machi mine mori nami numa saka saki sawa seki shima shiro tani tsuru uchi wara zaki",
        "Aiko Daichi Emi Haruto Hiro Kaito Kenji Mei Nao Ren Rina Sakura Yui Yuto",
    ),
    "Indian": Language(
        "Aditi Amrit Anand Arun Chandra Deva Gagan Hari Indra Kala Kiran Madhu Mani Nava Nil Prabha Raja Rama Sagar "
        "Shanti Surya Tara Uday Vana Vijay Yash",
        "bala dev dhara garh giri kanth karan kunj lok mala mitra nagar nath pur rekha shakti tara van vihar",
        "Aarav Ananya Arjun Deepa Ishaan Kavya Meera Neha Nikhil Pooja Rahul Rohan Sanjay Vikram",
    ),
}

COUNTRIES = {
    "United States": Country("English", 0.21, ("Inc.", "LLC", "Corp.")),
    "Germany": Country("German", 0.13, ("GmbH", "AG", "GmbH & Co. KG", "KG")),
    "United Kingdom": Country("English", 0.11, ("Ltd", "plc")),
    "France": Country("French", 0.09, ("SAS", "SA", "SARL")),
    "Italy": Country("Italian", 0.06, ("S.p.A.", "S.r.l.")),
    "Japan": Country("Japanese", 0.06, ("K.K.", "Co., Ltd.")),
    "Switzerland": Country("German", 0.06, ("AG", "GmbH")),
    "Spain": Country("Spanish", 0.05, ("S.A.", "S.L.")),
    "Netherlands": Country("Dutch", 0.05, ("B.V.", "N.V.")),
    "India": Country("Indian", 0.05, ("Pvt. Ltd.", "Ltd.")),
    "Canada": Country("English", 0.05, ("Ltd.", "Inc.")),
    "Sweden": Country("Nordic", 0.04, ("AB",)),
    "Australia": Country("English", 0.04, ("Pty Ltd",)),
    "Austria": Country("German", 0.03, ("GmbH", "AG")),
    "Belgium": Country("French", 0.02, ("SA", "SRL")),
    "Norway": Country("Nordic", 0.02, ("AS",)),
    "Denmark": Country("Nordic", 0.02, ("A/S",)),
    "Mexico": Country("Spanish", 0.02, ("S.A. de C.V.",)),
}

# what a company of the industry calls itself, by language; English where a language has no words of its own
INDUSTRIES = {
    "Aerospace": {
        "English": "Aerospace,Avionics,Aviation Systems,Flight Technologies",
        "German": "Luftfahrt,Flugtechnik,Aerospace",
        "French": "Aéronautique,Aviation,Aérospatiale",
    },
    "Agriculture": {
        "English": "Farms,Agri,Growers,Seeds,Orchards",
        "German": "Agrar,Landtechnik,Saatgut",
        "French": "Agricole,Semences,Vignobles",
        "Spanish": "Agrícola,Semillas",
    },
    "Automotive": {
        "English": "Automotive,Motors,Auto Parts,Mobility,Drivetrain",
        "German": "Fahrzeugtechnik,Automotive,Fahrzeugbau",
        "French": "Automobiles,Mobilité,Équipements Auto",
        "Italian": "Motori,Automotive,Veicoli",
    },
    "Banking": {
        "English": "Bank,Capital,Savings,Trust,Finance",
        "German": "Bank,Privatbank,Finanz",
        "French": "Banque,Crédit,Finance",
        "Italian": "Credito,Banca,Finanza",
    },
    "Chemicals": {
        "English": "Chemicals,Polymers,Coatings,Resins,Specialty Chemicals",
        "German": "Chemie,Kunststoffe,Lacke",
        "French": "Chimie,Polymères,Revêtements",
    },
    "Construction": {
        "English": "Construction,Builders,Civil Engineering,Contractors",
        "German": "Bau,Hochbau,Tiefbau",
        "French": "Bâtiment,Travaux,Construction",
        "Spanish": "Construcciones,Obras",
    },
    "Education": {
        "English": "College,Academy,Learning,Institute,Schools",
        "German": "Akademie,Bildung,Fachschule",
        "French": "Académie,Formation,Institut",
    },
    "Energy": {
        "English": "Energy,Power,Renewables,Utilities,Wind",
        "German": "Energie,Stadtwerke,Windkraft",
        "French": "Énergie,Électricité,Éolien",
        "Spanish": "Energía,Renovables",
    },
    "Food & Beverage": {
        "English": "Foods,Brewing,Dairy,Bakeries,Beverages",
        "German": "Brauerei,Molkerei,Feinkost",
        "French": "Fromagerie,Boissons,Gourmet",
        "Italian": "Alimentari,Caffè,Pasta",
    },
    "Healthcare": {
        "English": "Health,Clinics,Medical Centers,Diagnostics,Care",
        "German": "Kliniken,Medizintechnik,Gesundheit",
        "French": "Santé,Cliniques,Soins",
    },
    "Hospitality": {
        "English": "Hotels,Resorts,Hospitality,Inns,Leisure",
        "German": "Hotels,Gastronomie,Resorts",
        "French": "Hôtels,Restauration,Séjours",
        "Spanish": "Hoteles,Turismo",
    },
    "Insurance": {
        "English": "Insurance,Mutual,Assurance,Underwriters,Reinsurance",
        "German": "Versicherung,Rückversicherung,Assekuranz",
        "French": "Assurances,Mutuelle,Prévoyance",
    },
    "Logistics": {
        "English": "Logistics,Freight,Shipping,Transport,Warehousing",
        "German": "Spedition,Logistik,Transporte",
        "French": "Logistique,Transports,Fret",
        "Spanish": "Logística,Transportes",
    },
    "Machinery": {
        "English": "Machinery,Machine Tools,Robotics,Hydraulics,Precision",
        "German": "Maschinenbau,Werkzeuge,Antriebstechnik",
        "French": "Mécanique,Machines,Outillage",
        "Italian": "Meccanica,Macchine,Utensili",
    },
    "Media": {
        "English": "Media,Publishing,Broadcasting,Studios,Press",
        "German": "Verlag,Medien,Studios",
        "French": "Éditions,Médias,Presse",
    },
    "Pharmaceuticals": {
        "English": "Pharma,Therapeutics,Biotech,Life Sciences,Laboratories",
        "German": "Pharma,Arzneimittel,Biotech",
        "French": "Laboratoires,Pharmacie,Biotech",
    },
    "Professional Services": {
        "English": "Consulting,Advisors,Legal,Accounting,Partners",
        "German": "Beratung,Treuhand,Partner",
        "French": "Conseil,Associés,Expertise",
    },
    "Retail": {
        "English": "Stores,Retail,Outfitters,Markets,Trading",
        "German": "Handel,Kaufhaus,Märkte",
        "French": "Magasins,Distribution,Commerce",
        "Italian": "Negozi,Grandi Magazzini",
    },
    "Telecommunications": {
        "English": "Telecom,Mobile,Broadband,Communications,Fiber",
        "German": "Telekom,Netze,Mobilfunk",
        "French": "Télécom,Réseaux,Fibre",
    },
    "Textiles": {
        "English": "Textiles,Apparel,Fabrics,Weaving,Mills",
        "German": "Textil,Weberei,Bekleidung",
        "French": "Tissus,Couture,Filature",
        "Italian": "Tessuti,Moda,Filati",
    },
}

EDITIONS = ("Starter", "Standard", "Professional", "Enterprise", "Unlimited")
SEATS = ("10 seats", "50 seats", "100 seats", "500 seats", "1000 seats")
CAPACITIES = ("12 TB", "24 TB", "48 TB", "96 TB", "192 TB")
PORTS = ("8-port", "16-port", "24-port", "48-port", "96-port")
MODELS = ("100", "200", "400", "600", "800")
INSTANCES = ("Small", "Medium", "Large", "X-Large", "2X-Large")
LEVELS = ("Bronze", "Silver", "Gold", "Platinum", "Diamond")
DAYS = ("1 day", "2 days", "5 days", "10 days", "20 days")

FAMILIES = {
    "Servers": Family(
        "infrastructure", 14_000, 500, MODELS, "Atlas,Boulder,Monolith,Pylon",
        "Rack Server,Tower Server,Blade,Edge Server,Compute Node,GPU Server",
    ),
    "Storage": Family(
        "infrastructure", 22_000, 540, CAPACITIES, "Granite,Cellar,Basalt,Quarry",
        "Flash Array,Hybrid Array,Object Store,File Server,Tape Library,Archive",
    ),
    "Networking": Family(
        "infrastructure", 5_200, 420, PORTS, "Meridian,Causeway,Junction,Viaduct",
        "Core Switch,Access Switch,Industrial Switch,PoE Switch,Branch Router,Fiber Gateway",
    ),
    "Backup": Family(
        "infrastructure", 6_800, 365, CAPACITIES, "Lifeboat,Keepsake,Safeharbor,Anchor",
        "Backup Appliance,Cloud Backup,Snapshot Manager,Disaster Recovery,Mailbox Backup",
    ),
    "Virtualization": Family(
        "infrastructure", 4_100, 365, EDITIONS, "Prism,Mirage,Doublet,Facet",
        "Hypervisor,Virtual Desktop,Virtual Network,Host Manager,Migration Tool",
    ),
    "Cloud Compute": Family(
        "cloud", 3_600, 180, INSTANCES, "Stratus,Cirro,Updraft,Zephyr",
        "Compute,GPU Compute,Bare Metal,Batch,Functions,Container Service",
    ),
    "Cloud Storage": Family(
        "cloud", 1_900, 180, CAPACITIES, "Cumulo,Reservoir,Cistern,Lagoon",
        "Block Volume,Object Bucket,File Share,Cold Archive,Content Delivery",
    ),
    "Integration": Family(
        "cloud", 8_500, 365, EDITIONS, "Trellis,Lattice,Weaver,Switchboard",
        "API Gateway,Message Broker,Workflow,Event Stream,Partner Exchange,File Transfer",
    ),
    "Hosting": Family(
        "cloud", 1_200, 365, INSTANCES, "Homestead,Gable,Lantern,Porch",
        "Web Hosting,Managed Website,Mail Hosting,Domain Bundle,Private Rack",
    ),
    "Endpoint Security": Family(
        "security", 2_300, 365, SEATS, "Sentry,Halberd,Bulwark,Watchman",
        "Antivirus,Endpoint Detection,Disk Encryption,Device Control,Patch Manager,Mobile Protection",
    ),
    "Network Security": Family(
        "security", 9_400, 400, MODELS, "Rampart,Portcullis,Drawbridge,Citadel",
        "Firewall,Web Gateway,Mail Gateway,VPN Concentrator,Intrusion Sensor,DDoS Shield",
    ),
    "Identity": Family(
        "security", 3_100, 365, SEATS, "Signet,Passkeep,Herald,Turnstile",
        "Single Sign-On,Directory,Privileged Access,Multi-Factor,Access Review",
    ),
    "Compliance": Family(
        "security", 7_600, 365, EDITIONS, "Ledgerline,Plumb,Auditum,Covenant",
        "Audit Trail,Log Manager,Risk Register,Privacy Desk,Policy Manager,Records Vault",
    ),
    "Databases": Family(
        "data", 11_000, 365, EDITIONS, "Tabula,Quartz,Cairn,Bedrock",
        "Relational Database,Document Database,Time Series,Graph Database,In-Memory Cache,Replication",
    ),
    "Analytics": Family(
        "data", 6_200, 365, EDITIONS, "Compass,Sextant,Overlook,Kaleido",
        "Dashboards,Data Warehouse,Reporting,Forecasting,Data Catalog,Data Preparation",
    ),
    "Artificial Intelligence": Family(
        "data", 17_000, 365, EDITIONS, "Oraculo,Cortexa,Cogito,Mentor",
        "Document Understanding,Vision Inspection,Chat Assistant,Translation,Model Server,Speech",
    ),
    "Laptops": Family(
        "workplace", 1_350, 240, MODELS, "Heron,Swift,Kingfisher,Plover",
        "Laptop,Convertible,Rugged Laptop,Mobile Workstation,Kiosk,Tablet",
    ),
    "Workstations": Family(
        "workplace", 2_400, 300, MODELS, "Bison,Ibex,Stag,Ram",
        "Desktop,Mini Desktop,All-in-One,CAD Workstation,Thin Client,Monitor",
    ),
    "Printing": Family(
        "workplace", 620, 75, MODELS, "Inkwell,Quillon,Folio,Parchment",
        "Laser Printer,Color Printer,Label Printer,Scanner,Toner Pack,Drum Unit,Paper Contract",
    ),
    "Collaboration": Family(
        "workplace", 1_700, 365, SEATS, "Roundtable,Agora,Huddle,Forum",
        "Video Meetings,Team Chat,Whiteboard,Webinars,Intranet,Document Sharing",
    ),
    "Office Licenses": Family(
        "workplace", 1_500, 365, SEATS, "Scribe,Deskwise,Inkstand,Draftsman",
        "Office Suite,Word Processor,Spreadsheet,PDF Editor,Mail Client,Diagram Editor,Notes",
    ),
    "Telephony": Family(
        "workplace", 980, 300, SEATS, "Bellwether,Ringtail,Carillon,Chime",
        "Cloud Phone,SIP Trunk,Desk Phones,Headsets,Contact Center,Mobile Plan",
    ),
    "ERP": Family(
        "business", 28_000, 365, EDITIONS, "Keystone,Cornerpost,Capstan,Mainsail",
        "Finance,Procurement,Production Planning,Asset Management,Project Accounting,Warehouse",
    ),
    "CRM": Family(
        "business", 7_200, 365, SEATS, "Rapport,Handshake,Concord,Liaison",
        "Sales Desk,Service Desk,Campaigns,Partner Portal,Field Service,Loyalty",
    ),
    "Human Resources": Family(
        "business", 4_800, 365, SEATS, "Kinship,Rollcall,Tenure,Muster",
        "Payroll,Time Tracking,Recruiting,Learning,Performance,Travel Expenses",
    ),
    "Supply Chain": Family(
        "business", 19_000, 365, EDITIONS, "Caravan,Waypoint,Portage,Bowline",
        "Demand Planning,Transport Planning,Supplier Portal,Inventory Optimizer,Track and Trace",
    ),
    "Internet of Things": Family(
        "business", 3_300, 270, MODELS, "Pulse,Beacon,Thicket,Antenna",
        "Sensor Kit,Edge Gateway,Asset Tracker,Energy Meter,Machine Monitor,Vibration Sensor",
    ),
    "Consulting": Family(
        "services", 9_800, 300, DAYS, "Pathway,Northlight,Blueprint,Lodestar",
        "Architecture Review,Migration,Security Assessment,Process Workshop,Rollout,Data Strategy",
    ),
    "Training": Family(
        "services", 1_600, 150, DAYS, "Lectern,Chalk,Primer,Atelier",
        "Administrator Course,User Course,Security Awareness,Developer Course,Certification",
    ),
    "Support": Family(
        "services", 3_400, 365, LEVELS, "Handrail,Steadfast,Standby,Lifeline",
        "Hardware Support,Software Support,On-Site Support,Remote Monitoring,Spare Parts,Managed Desk",
    ),
}  # fmt: skip


def roots() -> dict[str, list[str]]:
    """Return the family names of every language, each in one language only."""
    taken: set[str] = set()
    roots_by_language = {}
    for name, language in LANGUAGES.items():
        # no "Barrowwick" with its letter twice, no "Bergberg"
        joined = [
            beginning + ending
            for beginning in language.beginnings.split()
            for ending in language.endings.split()
            if beginning[-1].lower() != ending[0] and not beginning.lower().endswith(ending)
        ]
        roots_by_language[name] = [root for root in dict.fromkeys(joined) if root not in taken]
        taken.update(joined)
    return roots_by_language


def company_names(rng: np.random.Generator, industry: NDArray[np.int64], country: NDArray[np.int64]) -> Names:
    """Return a unique name for each company, in the language of its country and with a word for its industry."""
    countries = list(COUNTRIES.values())
    spoken = np.array([place.language for place in countries])[country]
    names = np.empty(len(industry), dtype=object)
    for language, known in roots().items():
        for number, words in enumerate(INDUSTRIES.values()):
            rows = np.flatnonzero((spoken == language) & (industry == number))
            names[rows] = _stems(rng, len(rows), known, words.get(language, words["English"]).split(","))
    # squared: the usual form of the country, which comes first, is the most frequent
    usual = rng.random(len(names)) ** 2
    for row, (place, share) in enumerate(zip(country, usual, strict=True)):
        forms = countries[place].legal_forms
        names[row] = f"{names[row]} {forms[int(share * len(forms))]}"
    return names


def _stems(rng: np.random.Generator, n: int, known: list[str], words: list[str]) -> list[str]:
    """Return names without the legal form: "Rowanshaw Freight", and some of two, "Rowanshaw & Elmham Freight"."""
    n_single = min(round(0.85 * n), len(known) * len(words) // 2)
    single = rng.choice(len(known) * len(words), n_single, replace=False)
    double = rng.choice(len(known) * (len(known) - 1) * len(words), n - n_single, replace=False)
    stems = [f"{known[code // len(words)]} {words[code % len(words)]}" for code in single.tolist()]
    for code in double.tolist():
        pair, word = divmod(code, len(words))
        first, step = divmod(pair, len(known) - 1)
        stems.append(f"{known[first]} & {known[(first + 1 + step) % len(known)]} {words[word]}")
    return [stems[place] for place in rng.permutation(n).tolist()]


def seller_names(rng: np.random.Generator, country: NDArray[np.int64]) -> Names:
    """Return the seller of every client: a person of the same country who looks after some seventy clients."""
    countries = list(COUNTRIES.values())
    names = np.empty(len(country), dtype=object)
    for language, known in roots().items():
        first_names = LANGUAGES[language].first_names.split()
        people = rng.permutation(len(first_names) * len(known)).tolist()
        for number in [place for place, it in enumerate(countries) if it.language == language]:
            rows = np.flatnonzero(country == number)
            team = [people.pop() for _ in range(-(-len(rows) // CLIENTS_PER_SELLER))]
            full = np.array([f"{first_names[it % len(first_names)]} {known[it // len(first_names)]}" for it in team])
            names[rows] = full[rng.integers(len(team), size=len(rows))] if len(rows) else []
    return names


class Catalog(NamedTuple):
    """Return every product that there can be."""

    names: Names
    family: NDArray[np.int64]  # position in FAMILIES
    variant: NDArray[np.int64]  # 0 the cheapest


def catalog() -> Catalog:
    listed = [
        (f"{line} {kind} {variant}", number, step)
        for number, family in enumerate(FAMILIES.values())
        for line in family.lines.split(",")
        for kind in family.kinds.split(",")
        for step, variant in enumerate(family.variants)
    ]
    names, families, variants = zip(*listed, strict=True)
    return Catalog(np.array(names, dtype=object), np.array(families), np.array(variants))
